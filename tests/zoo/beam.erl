%% The BEAM virtual machine: its own stacks inside the heap, a JIT that uses rsp for them, a collector for each of
%% many processes, messages, exceptions, binaries. See zoo.h for what a round is.
-module(beam).
-export([main/0]).

main() ->
    true = round_is_right(),
    io:format("ready~n"),
    loop(0, 0).

loop(Rounds, Wrong) ->
    case filelib:is_file("keep") of
        true when Rounds rem 10 =:= 0 -> loop(Rounds + 1, Wrong + wrong(round_is_right() and text_is_right()));
        true -> loop(Rounds + 1, Wrong + wrong(round_is_right()));
        false ->
            io:format("rounds ~b wrong ~b~n", [Rounds, Wrong]),
            halt(0)
    end.

wrong(true) -> 0;
wrong(false) -> 1.

round_is_right() ->
    Self = self(),
    Workers = [spawn_link(fun() -> worker(Self, I) end) || I <- lists:seq(0, 49)],
    Sum = lists:sum([receive {Worker, Result} -> Result end || Worker <- Workers]),
    Sum + nodes_of(tree(12)) + fib(20) =:= 247706.

%% Adds up in steps, each of which goes through a second process and an exception.
worker(Parent, I) ->
    Echo = spawn_link(fun echo/0),
    Result = lists:foldl(
        fun(K, Sum) ->
            Echo ! {self(), I * K},
            Value = receive {Echo, Answer} -> Answer end,
            try throw({value, Value}) catch {value, V} -> Sum + V end
        end, 0, lists:seq(0, 19)),
    Echo ! stop,
    Parent ! {self(), Result}.

echo() ->
    receive
        {From, Value} -> From ! {self(), Value}, echo();
        stop -> ok
    end.

tree(0) -> {leaf, leaf};
tree(Depth) -> {tree(Depth - 1), tree(Depth - 1)}.

nodes_of(leaf) -> 0;
nodes_of({Left, Right}) -> 1 + nodes_of(Left) + nodes_of(Right).

fib(N) when N < 2 -> N;
fib(N) -> fib(N - 1) + fib(N - 2).

%% Big integers, binaries, and a recursion whose stack grows and is moved.
text_is_right() ->
    Digits = integer_to_binary(lists:foldl(fun(N, Product) -> N * Product end, 1, lists:seq(1, 200))),
    375 =:= byte_size(Digits) andalso 20000 =:= count(20000).

count(0) -> 0;
count(N) -> 1 + count(N - 1).
