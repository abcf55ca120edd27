// Rust: threads, channels, boxes, panics that unwind and are caught. See zoo.h for what a round is.
use std::panic;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

struct Tree(Option<Box<(Tree, Tree)>>);

fn tree(depth: i32) -> Tree {
    Tree((depth >= 0).then(|| Box::new((tree(depth - 1), tree(depth - 1)))))
}

fn nodes(tree: &Tree) -> i64 {
    tree.0.as_ref().map_or(0, |both| 1 + nodes(&both.0) + nodes(&both.1))
}

#[inline(never)]
fn fib(n: i64) -> i64 {
    if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
}

// Each step arrives by a panic.
fn worker(i: i64) -> i64 {
    (0..20)
        .map(|k| *panic::catch_unwind(|| panic::panic_any(i * k)).unwrap_err().downcast::<i64>().unwrap())
        .sum()
}

fn is_right() -> bool {
    let (sender, receiver) = mpsc::channel();
    let threads: Vec<_> = (0..2)
        .map(|half| {
            let sender = sender.clone();
            thread::spawn(move || (0..25).for_each(|i| sender.send(worker(half * 25 + i)).unwrap()))
        })
        .collect();
    drop(sender);
    let own = nodes(&tree(12)) + fib(20);
    let sum: i64 = receiver.iter().sum();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    own + sum == 247706
}

fn main() {
    panic::set_hook(Box::new(|_| ()));
    assert!(is_right());
    println!("ready");
    let (mut rounds, mut wrong) = (0, 0);
    while Path::new("keep").exists() {
        rounds += 1;
        wrong += i32::from(!is_right());
    }
    println!("rounds {rounds} wrong {wrong}");
}
