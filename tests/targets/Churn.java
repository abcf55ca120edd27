import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.IntUnaryOperator;

/**
 * Keeps garbage collectors busy, and the places where methods and their code lie: two threads fill a small heap, two load
 * the same few classes again and again with loaders of their own, run them until they are compiled, and throw them away. The
 * class Red is run by the method red alone, and so on. Says how many classes it has loaded; ends when its standard input does.
 */
public class Churn {
    static volatile boolean stop = false;
    static volatile long sink = 0, loaded = 0;

    public static class Red implements IntUnaryOperator {
        public int applyAsInt(int n) {
            return n < 2 ? n : redder(n - 1) + applyAsInt(n - 2);
        }

        private int redder(int n) {
            return applyAsInt(n) ^ 1;
        }
    }

    public static class Green implements IntUnaryOperator {
        public int applyAsInt(int n) {
            int all = 0;
            for (int i = 0; i < 40 * n; i++) all += greener(i) - all % 7;
            return all;
        }

        private int greener(int n) {
            return Integer.toString(n * 31).length();
        }
    }

    public static class Blue implements IntUnaryOperator {
        public int applyAsInt(int n) {
            try {
                return bluer(n);
            } catch (IllegalStateException e) {
                return e.getMessage().length();
            }
        }

        private int bluer(int n) {
            if (n > 0) return bluer(n - 1) + 1;
            throw new IllegalStateException("blue");
        }
    }

    static class Loader extends ClassLoader {
        Loader() {
            super(Churn.class.getClassLoader());
        }

        IntUnaryOperator make(String name) {
            try (InputStream file = Churn.class.getResourceAsStream(name + ".class")) {
                ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                file.transferTo(bytes);
                Class<?> made = defineClass(name, bytes.toByteArray(), 0, bytes.size());
                return (IntUnaryOperator) made.getDeclaredConstructor().newInstance();
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        }
    }

    static void red() {
        IntUnaryOperator made = new Loader().make("Churn$Red");
        for (int i = 0; i < 60; i++) sink += made.applyAsInt(14);
    }

    static void green() {
        IntUnaryOperator made = new Loader().make("Churn$Green");
        for (int i = 0; i < 400; i++) sink += made.applyAsInt(3);
    }

    static void blue() {
        IntUnaryOperator made = new Loader().make("Churn$Blue");
        for (int i = 0; i < 1000; i++) sink += made.applyAsInt(5);
    }

    static void load(int seed) {
        Random random = new Random(seed);
        while (!stop) {
            int which = random.nextInt(3);
            if (which == 0) red();
            else if (which == 1) green();
            else blue();
            loaded++;
        }
    }

    static void fill() {
        List<byte[]> kept = new ArrayList<>();
        Random random = new Random(7);
        while (!stop) {
            byte[] piece = new byte[16 + random.nextInt(4000)];
            if (kept.size() < 1000) kept.add(piece);
            else kept.set(random.nextInt(kept.size()), piece);
            sink += piece.length;
        }
    }

    public static void main(String[] arguments) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            int seed = i;
            threads.add(new Thread(() -> load(seed), "load-" + i));
            threads.add(new Thread(Churn::fill, "fill-" + i));
        }
        for (Thread thread : threads) thread.start();
        System.out.println("ready ");
        while (System.in.read() >= 0) {}
        stop = true;
        for (Thread thread : threads) thread.join();
        System.out.println("loaded " + loaded);
    }
}
