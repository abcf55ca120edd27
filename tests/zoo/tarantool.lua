-- Tarantool: LuaJIT on fibers with mapped stacks under an event loop, channels, msgpack.
-- See zoo.h for what a round is.
local fiber = require('fiber')
local fio = require('fio')
local msgpack = require('msgpack')

local function tree(depth)
    if depth < 0 then return nil end
    return {left = tree(depth - 1), right = tree(depth - 1)}
end

local function nodes(tree)
    if not tree then return 0 end
    return 1 + nodes(tree.left) + nodes(tree.right)
end

local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end

local function worker(i, results)
    for k = 0, 19 do
        local _, step = pcall(error, {value = i * k})
        if k % 5 == 0 then fiber.yield() end
        results:put(msgpack.encode(step))
    end
end

local function is_right()
    local results = fiber.channel(10)
    for i = 0, 49 do fiber.create(worker, i, results) end
    local sum = 0
    for _ = 1, 50 * 20 do sum = sum + msgpack.decode(results:get()).value end
    return sum + nodes(tree(12)) + fib(20) == 247706
end

if not is_right() then os.exit(1) end
print('ready')
io.stdout:flush()
local rounds, wrong = 0, 0
while fio.path.exists('keep') do
    rounds = rounds + 1
    if not is_right() then wrong = wrong + 1 end
end
print(('rounds %d wrong %d'):format(rounds, wrong))
io.stdout:flush()
os.exit(0)
