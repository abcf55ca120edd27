% Octave: a tree walker in C++ whose control flow is exceptions, cells, closures, BLAS.
% A round is that of zoo.h, with a smaller tree: 511 nodes of depth 8, and fib(14) = 377.
1;

function result = tree (depth)
  if depth < 0
    result = [];
  else
    result = {tree(depth - 1), tree(depth - 1)};
  end
end

function count = nodes (tree)
  if isempty (tree)
    count = 0;
  else
    count = 1 + nodes (tree{1}) + nodes (tree{2});
  end
end

function result = fib (n)
  if n < 2
    result = n;
  else
    result = fib (n - 1) + fib (n - 2);
  end
end

function total = worker (i)
  total = 0;
  for k = 0:19
    try
      error ("zoo:step", "%d", i * k);
    catch step
      total += str2double (step.message);
    end
  end
end

function right = is_right ()
  total = sum (arrayfun (@worker, 0:49)) + nodes (tree (8)) + fib (14);
  square = magic (40);
  inverse_is_right = norm (square' * square - (square' * square)') == 0;
  right = total == 232750 + 511 + 377 && inverse_is_right;
end

if ! is_right ()
  exit (1);
end
puts ("ready\n");
fflush (stdout);
rounds = 0;
wrong = 0;
while exist ("keep", "file") == 2
  rounds++;
  wrong += ! is_right ();
end
printf ("rounds %d wrong %d\n", rounds, wrong);
exit (0);
