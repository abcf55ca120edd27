# Spends CPU time in a known ratio: in Ruby alone, in blocks that C methods call, in fibers, and in C methods without the lock.
# Prints "ready", and when its standard input ends "name=SECONDS" for each part: the CPU time that it measured itself.

require 'zlib'

SPENT = Hash.new(0.0)
TEXT = Random.new(1).bytes(1 << 16)

def work(count)
  total = 0
  i = 0
  while i < count
    total += i * i
    i += 1
  end
  total
end

def in_ruby
  work(2000)
end

def in_sort
  (1..40).sort_by { |x| work(40) + x }
end

def in_fiber
  fiber = Fiber.new { 5.times { |x| Fiber.yield work(300) + x } }
  5.times { fiber.resume }
end

def in_zlib
  Zlib::Deflate.deflate(TEXT)
end

def cpu
  Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
end

def spend(name, seconds)
  begun = cpu
  send(name) while cpu - begun < seconds
  SPENT[name] += cpu - begun
end

$stdout.sync = true
puts 'ready'
over = false
Thread.new { $stdin.read; over = true }
{ in_ruby: 40, in_sort: 30, in_fiber: 20, in_zlib: 10 }.each { |name, steps| spend(name, steps / 4000.0) } until over
puts SPENT.map { |name, seconds| "#{name}=#{seconds}" }.join(' ')
