-- GHC: lazy evaluation on a stack of its own in rbp, a copying collector, light threads, MVars, exceptions.
-- See zoo.h for what a round is.
import Control.Concurrent
import Control.Exception
import Control.Monad
import System.Directory (doesFileExist)
import System.IO

data Tree = Leaf | Node Tree Tree

tree :: Int -> Tree
tree depth | depth < 0 = Leaf
           | otherwise = Node (tree (depth - 1)) (tree (depth - 1))

nodes :: Tree -> Int
nodes Leaf = 0
nodes (Node left right) = 1 + nodes left + nodes right

fib :: Int -> Int
fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)

-- Each step goes through an exception that is thrown and caught.
worker :: MVar Int -> Int -> IO ()
worker result i = do
  steps <- forM [0 .. 19] $ \k -> do
    thrown <- try (evaluate (if k >= 0 then throw (ErrorCall (show (i * k))) else 0))
    return (either (\(ErrorCall text) -> read text) id thrown)
  putMVar result (sum steps)

roundIsRight :: Int -> IO Bool
roundIsRight depth = do
  results <- forM [0 .. 49] $ \i -> do
    result <- newEmptyMVar
    _ <- forkIO (worker result i)
    return result
  total <- sum <$> mapM takeMVar results
  return (total + nodes (tree depth) + fib (depth + 8) == 247706)

loop :: Int -> Int -> IO ()
loop rounds wrong = do
  goesOn <- doesFileExist "keep"
  if goesOn
    -- The depth is not known before, so that no round is computed once for all.
    then do
      right <- roundIsRight (12 + rounds `div` maxBound)
      let missed = if right then wrong else wrong + 1
      missed `seq` loop (rounds + 1) missed
    else putStrLn ("rounds " ++ show rounds ++ " wrong " ++ show wrong)

main :: IO ()
main = do
  True <- roundIsRight 12
  putStrLn "ready"
  hFlush stdout
  loop 0 0
