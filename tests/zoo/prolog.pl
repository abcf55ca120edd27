% SWI-Prolog: backtracking on stacks of its own that are moved when they grow, engines, threads with message queues,
% exceptions, atoms that are collected. See zoo.h for what a round is.
tree(D, nil) :- D < 0, !.
tree(D, t(L, R)) :- E is D - 1, tree(E, L), tree(E, R).

nodes(nil, 0).
nodes(t(L, R), N) :- nodes(L, A), nodes(R, B), N is A + B + 1.

fib(N, N) :- N < 2, !.
fib(N, F) :- A is N - 1, B is N - 2, fib(A, X), fib(B, Y), F is X + Y.

% Each step is asked of an engine and arrives by an exception.
worker(I, Sum) :-
    engine_create(V, (between(0, 19, K), V is I * K), Engine),
    steps(Engine, 0, Sum),
    engine_destroy(Engine).

steps(Engine, Sum0, Sum) :-
    (   engine_next(Engine, Value)
    ->  catch(throw(step(Value)), step(Caught), true),
        Sum1 is Sum0 + Caught,
        steps(Engine, Sum1, Sum)
    ;   Sum = Sum0
    ).

workers(First, Last, Sum) :-
    findall(S, (between(First, Last, I), worker(I, S)), Sums),
    sum_list(Sums, Sum).

right :-
    thread_self(Main),
    thread_create((workers(0, 24, S), thread_send_message(Main, half(S))), Thread),
    workers(25, 49, Own),
    tree(12, Tree), nodes(Tree, Nodes), fib(20, Fib),
    thread_get_message(half(Half)),
    thread_join(Thread),
    findall(A, (between(1, 500, I), atom_concat(word, I, A)), Words),
    length(Words, 500),
    247706 =:= Own + Half + Nodes + Fib.

loop(Rounds, Wrong) :-
    (   \+ exists_file(keep)
    ->  format("rounds ~w wrong ~w~n", [Rounds, Wrong])
    ;   ( right -> Wrong1 = Wrong ; Wrong1 is Wrong + 1 ),
        Rounds1 is Rounds + 1,
        loop(Rounds1, Wrong1)
    ).

main :- right, format("ready~n"), flush_output, loop(0, 0), halt(0).
main :- halt(1).
