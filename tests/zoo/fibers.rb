# Ruby: fibers, threads with a timer that switches them, a collector that reads stacks and moves objects, exceptions.
# See zoo.h for what a round is.
def tree(depth) = depth.negative? ? nil : [tree(depth - 1), tree(depth - 1)]
def nodes(tree) = tree ? 1 + nodes(tree[0]) + nodes(tree[1]) : 0
def fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2)

class Step < StandardError
  attr_reader :value

  def initialize(value) = @value = value
end

def worker(i)
  20.times do |k|
    raise Step.new(i * k)
  rescue Step => e
    Fiber.yield e.value
  end
  nil
end

def workers(range)
  alive = range.map { |i| Fiber.new { worker(i) } }
  sum = 0
  until alive.empty?
    alive.select! do |fiber|
      value = fiber.resume
      sum += value if value
      value
    end
  end
  sum
end

def right?(round)
  GC.compact if (round % 50).zero?
  other = Thread.new { workers(0..24) }
  words = (1..500).to_h { |i| ["word#{i}", i] }
  own = workers(25..49) + nodes(tree(12)) + fib(20)
  own + other.value == 247_706 && words['word500'] == 500
end

exit 1 unless right?(0)
puts 'ready'
$stdout.flush
rounds = wrong = 0
while File.exist?('keep')
  rounds += 1
  wrong += 1 unless right?(rounds)
end
puts "rounds #{rounds} wrong #{wrong}"
