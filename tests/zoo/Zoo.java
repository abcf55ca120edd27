// Java: JIT compilers, a moving collector with safepoints, null checks and stack overflows found by SIGSEGV, monitors.
// Two threads work at the same time. See zoo.h for what a round is.
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.concurrent.atomic.AtomicLong;

public class Zoo {
    record Tree(Tree left, Tree right) {
        static Tree of(int depth) {
            return depth < 0 ? null : new Tree(of(depth - 1), of(depth - 1));
        }

        static int nodes(Tree tree) {
            return tree == null ? 0 : 1 + nodes(tree.left) + nodes(tree.right);
        }
    }

    static class Step extends RuntimeException {
        final int value;

        Step(int value) {
            this.value = value;
        }
    }

    static final AtomicLong rounds = new AtomicLong();
    static final AtomicLong wrong = new AtomicLong();

    static int fib(int n) {
        return n < 2 ? n : fib(n - 1) + fib(n - 2);
    }

    static int worker(int i) {
        int sum = 0;
        for (int k = 0; k < 20; k++) {
            try {
                throw new Step(i * k);
            } catch (Step step) {
                sum += step.value;
            }
        }
        return sum;
    }

    static boolean nullIsCaught() {
        Tree none = null;
        try {
            return none.left == none;
        } catch (NullPointerException caught) {
            return true;
        }
    }

    static int endless(int n) {
        return endless(n + 1) + 1;
    }

    static boolean overflowIsCaught() {
        try {
            return endless(0) == 0;
        } catch (StackOverflowError caught) {
            return true;
        }
    }

    static boolean isRight(long round) {
        int sum = Tree.nodes(Tree.of(12)) + fib(20);
        for (int i = 0; i < 50; i++) {
            sum += worker(i);
        }
        var words = new HashMap<String, Integer>();
        for (int i = 0; i < 500; i++) {
            words.put("word" + i, i);
        }
        return sum == 247706 && words.get("word499") == 499 && nullIsCaught() && (round % 50 != 0 || overflowIsCaught());
    }

    static void work() {
        while (Files.exists(Path.of("keep"))) {
            if (!isRight(rounds.incrementAndGet())) {
                wrong.incrementAndGet();
            }
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        if (!isRight(0)) {
            System.exit(1);
        }
        System.out.println("ready");
        var second = new Thread(Zoo::work);
        second.start();
        work();
        second.join();
        System.out.printf("rounds %d wrong %d%n", rounds.get(), wrong.get());
    }
}
