# Threads that are parked in stacks of all kinds. Prints "ready", then a line of JSON: for each tid the backtrace as Ruby itself
# tells it, innermost first, as [path, line, label]. Waits for the end of its input.
require 'json'
require 'set'

PARKED = Queue.new

def park
  PARKED << [Thread.current, Thread.current.native_thread_id]
  sleep
end

def deep(depth)
  return park if depth.zero?

  deep(depth - 1)
end

def blocks
  [3, 1, 2].each do |number|
    { a: number }.each_pair do |_key, _value|
      1.times { [1].map { park } }
    end
  end
end

class Shape
  def initialize(size)
    @size = size
    area
  end

  def area
    Shape.scaled(@size) { |size| park if size }
  end

  def self.scaled(size)
    yield size * 2
  end

  define_method(:defined_by_block) { |x| [x].each { park } }

  def method_missing(name, *rest)
    return super unless name == :ghost

    park
  end

  def respond_to_missing?(name, all = false)
    name == :ghost || super
  end

  def <=>(_other)
    park
  end
  include Comparable
end

module Outer
  module Mixed
    def mixed
      tap { |_it| park }
    end
  end

  class Inner
    include Mixed

    class << self
      def single
        new.send(:hidden)
      end
    end

    private

    def hidden
      instance_eval { mixed }
    end
  end
end

def evaluated
  eval("1 +\n  begin\n    park\n  end", binding, 'made.erb', 10)
end

def rescued
  raise ArgumentError, 'no'
rescue ArgumentError
  begin
    1
  ensure
    park
  end
end

def sorted
  [Object.new, Object.new].sort_by { |_each| park }
end

def enumerated
  (1..Float::INFINITY).lazy.map { |x| x * 2 }.select { |_x| park }.first(2)
end

def in_fiber
  Fiber.new do
    Fiber.new { [1].each { park } }.resume
  end.resume
end

def generated
  made = Enumerator.new { |y| deep(3); y << 1 }
  made.next
end

def with_proc
  callable = proc { |x| ->(y) { park if y }.call(x) }
  [1].each(&callable)
end

def symbol_to_proc
  [Object.new.tap { |o| def o.parked = park }].each(&:parked)
end

def long_name_that_has_no_room_in_the_object_that_holds_a_string
  [1].each { park }
end

def long_body
  eval("x = 0\n#{"x += 1\n" * 700}park\n", binding, 'long.rb')
end

STACKS = [
  -> { deep(0) }, -> { deep(300) }, -> { blocks }, -> { Shape.new(3) }, -> { Shape.allocate.defined_by_block(1) },
  -> { Shape.allocate.ghost }, -> { Shape.allocate > Shape.allocate }, -> { Outer::Inner.single }, -> { evaluated }, -> { rescued },
  -> { sorted }, -> { enumerated }, -> { in_fiber }, -> { generated }, -> { with_proc }, -> { symbol_to_proc },
  -> { long_body }, -> { long_name_that_has_no_room_in_the_object_that_holds_a_string },
  -> { Class.new { class_eval('def made_by_eval; park; end', 'template.haml', 7) }.new.made_by_eval },
  -> { "a-b".gsub(/-/) { park } }, -> { catch(:done) { park } }, -> { Set.new([1]).each { park } },
  -> { begin; raise 'x'; rescue StandardError; park; end }
].freeze

$stdout.sync = true
STACKS.each { |stack| Thread.new(&stack) }
threads = STACKS.map { PARKED.pop }
stacks = threads.to_h do |thread, tid|
  Thread.pass until thread.status == 'sleep'
  [tid, thread.backtrace_locations.map { |each| [each.path, each.lineno, each.label] }]
end
puts 'ready', stacks.to_json
$stdin.read
