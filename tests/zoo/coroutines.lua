-- Lua and LuaJIT: coroutines, closures, tables, pcall; with LuaJIT also compiled traces and C calling back into Lua.
-- See zoo.h for what a round is.
local jit = rawget(_G, "jit")

local function tree(depth)
  if depth < 0 then return nil end
  return {left = tree(depth - 1), right = tree(depth - 1)}
end

local function nodes(tree)
  if not tree then return 0 end
  return 1 + nodes(tree.left) + nodes(tree.right)
end

local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end

local function worker(i)
  for k = 0, 19 do
    local _, thrown = pcall(error, {value = i * k})
    coroutine.yield(thrown.value)
  end
end

local function workers()
  local alive, sum = {}, 0
  for i = 0, 49 do alive[#alive + 1] = coroutine.create(function() worker(i) end) end
  while #alive > 0 do
    for index = #alive, 1, -1 do
      local _, value = coroutine.resume(alive[index])
      if value then sum = sum + value else table.remove(alive, index) end
    end
  end
  return sum
end

-- The C library sorts, and calls a Lua function for each comparison.
local sorted_by_c = function() return true end
if jit then
  local ffi = require("ffi")
  ffi.cdef("void qsort(void *, size_t, size_t, int (*)(const int *, const int *));")
  local compare = ffi.cast("int (*)(const int *, const int *)", function(a, b) return a[0] - b[0] end)
  sorted_by_c = function()
    local numbers = ffi.new("int[200]")
    for i = 0, 199 do numbers[i] = i * 77 % 200 end
    ffi.C.qsort(numbers, 200, 4, compare)
    for i = 0, 199 do if numbers[i] ~= i then return false end end
    return true
  end
  jit.off(sorted_by_c) -- a compiled trace must not call back
end

local function is_right()
  local words = {}
  for i = 1, 500 do words["word" .. i] = i end
  return nodes(tree(12)) + fib(20) + workers() == 247706 and words.word500 == 500 and sorted_by_c()
end

local function goes_on()
  local keep = io.open("keep")
  return keep and keep:close()
end

if not is_right() then os.exit(1) end
print("ready")
io.stdout:flush()
local rounds, wrong = 0, 0
while goes_on() do
  rounds = rounds + 1
  if not is_right() then wrong = wrong + 1 end
end
print(("rounds %d wrong %d"):format(rounds, wrong))
