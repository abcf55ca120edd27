(* OCaml, native or bytecode: a generational collector, exceptions without unwind tables, threads with a master lock
   and a ticker, recursion. See zoo.h for what a round is. *)
type tree = Leaf | Node of tree * tree

exception Step of int

let rec tree depth = if depth < 0 then Leaf else Node (tree (depth - 1), tree (depth - 1))
let rec nodes = function Leaf -> 0 | Node (left, right) -> 1 + nodes left + nodes right
let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)

let worker i =
  let sum = ref 0 in
  for k = 0 to 19 do
    (try raise (Step (i * k)) with Step value -> sum := !sum + value);
    if k = i then Thread.yield ()
  done;
  !sum

let words () =
  let table = Hashtbl.create 16 in
  for i = 1 to 1000 do Hashtbl.replace table (string_of_int i) i done;
  Hashtbl.fold (fun _ value sum -> sum + value) table 0

let round_is_right () =
  let total = ref 0 and mutex = Mutex.create () in
  let half first () =
    for i = first to first + 24 do
      let sum = worker i in
      Mutex.lock mutex;
      total := !total + sum;
      Mutex.unlock mutex
    done in
  let threads = List.map (fun first -> Thread.create (half first) ()) [0; 25] in
  let own = nodes (tree 12) + fib 20 in
  List.iter Thread.join threads;
  own + !total = 247706 && words () = 500500

let () =
  if not (round_is_right ()) then exit 1;
  print_endline "ready";
  let rounds = ref 0 and wrong = ref 0 in
  while Sys.file_exists "keep" do
    incr rounds;
    if not (round_is_right ()) then incr wrong
  done;
  Printf.printf "rounds %d wrong %d\n" !rounds !wrong
