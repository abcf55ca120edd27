# Elixir on the BEAM: tasks, an agent, streams, exceptions, binaries. See zoo.h for what a round is.
defmodule Zoo do
  def tree(0), do: {nil, nil}
  def tree(depth), do: {tree(depth - 1), tree(depth - 1)}

  def nodes(nil), do: 0
  def nodes({left, right}), do: 1 + nodes(left) + nodes(right)

  def fib(n) when n < 2, do: n
  def fib(n), do: fib(n - 1) + fib(n - 2)

  def worker(i) do
    Enum.reduce(0..19, 0, fn k, sum ->
      try do
        raise ArgumentError, message: <<i * k::32>>
      rescue
        error in ArgumentError ->
          <<value::32>> = error.message
          sum + value
      end
    end)
  end

  def right?() do
    {:ok, agent} = Agent.start_link(fn -> 0 end)

    Enum.map(0..49, fn i -> Task.async(fn -> Agent.update(agent, &(&1 + worker(i))) end) end)
    |> Enum.each(&Task.await(&1, :infinity))

    sum = Agent.get(agent, & &1)
    Agent.stop(agent)
    text = Enum.map_join(1..500, ",", &Integer.to_string/1)
    sum + nodes(tree(12)) + fib(20) == 247_706 and length(String.split(text, ",")) == 500
  end

  def loop(rounds, wrong) do
    if File.exists?("keep") do
      loop(rounds + 1, if(right?(), do: wrong, else: wrong + 1))
    else
      IO.puts("rounds #{rounds} wrong #{wrong}")
    end
  end
end

true = Zoo.right?()
IO.puts("ready")
Zoo.loop(0, 0)
