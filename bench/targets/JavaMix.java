import java.lang.reflect.*; import java.util.*; import java.util.stream.*; import java.util.zip.*; import java.util.regex.*;
/** A mix: streams, formats, exceptions, reflection, zip (JNI), arraycopy, regex, lambdas, sync, arrays. args: threads */
public class JavaMix {
  static volatile boolean stop; static volatile long sink; static final java.util.concurrent.atomic.AtomicLong done = new java.util.concurrent.atomic.AtomicLong();
  interface Shape { double area(); }
  static class Sq implements Shape { final double s; Sq(double s){this.s=s;} public double area(){ return s*s; } }
  static class Ci implements Shape { final double r; Ci(double r){this.r=r;} public double area(){ return Math.sin(r)*r*r; } }
  static class Tr implements Shape { final double a,b; Tr(double a,double b){this.a=a;this.b=b;} public double area(){ return a*b/2; } }
  static final Shape[] shapes = new Shape[256];
  static { for (int i=0;i<256;i++) shapes[i] = i%3==0? new Sq(i): i%3==1? new Ci(i): new Tr(i,i+1); }
  static void streams(){ sink += IntStream.range(0,500).mapToObj(Integer::toString).filter(s->s.length()>1).collect(Collectors.groupingBy(String::length)).size(); }
  static void formats(){ sink += String.format("%d %s %08.3f %x", sink&0xffff, "text", 3.25*sink, sink).length(); }
  static int deep(int n) throws Exception { if(n==0) throw new IllegalStateException("x"+sink); return deep(n-1)+1; }
  static void exceptions(){ try { deep(20); } catch(Exception e){ sink += e.getStackTrace().length; } }
  static int target(int x){ return x*31+7; }
  static Method m; static { try { m = JavaMix.class.getDeclaredMethod("target", int.class);} catch(Exception e){} }
  static void reflect(){ try { for(int i=0;i<50;i++) sink += (Integer)m.invoke(null,i);} catch(Exception e){ throw new RuntimeException(e);} }
  static void zip(){ byte[] in = new byte[8192]; for(int i=0;i<in.length;i++) in[i]=(byte)(i*i>>3); Deflater d=new Deflater(1); d.setInput(in); d.finish(); byte[] out=new byte[10000]; sink += d.deflate(out); d.end(); CRC32 c=new CRC32(); c.update(in); sink+=c.getValue(); }
  static void virt(){ double t=0; for(Shape s: shapes) t += s.area(); sink += (long)t; }
  static void regex(){ Matcher mm = Pattern.compile("(a|b)*c[0-9]+x?").matcher("ababababc"+sink+"x"); sink += mm.find()?1:0; }
  static void maps(){ HashMap<String,Integer> h=new HashMap<>(); for(int i=0;i<200;i++) h.merge("k"+(i&31),1,Integer::sum); TreeMap<String,Integer> t=new TreeMap<>(h); sink+=t.size(); }
  static synchronized void sync(){ sink++; }
  static void syncs(){ for(int i=0;i<100;i++) sync(); }
  static void copy(){ int[] a=new int[4096]; for(int i=0;i<a.length;i++) a[i]=(int)(i^sink); Arrays.sort(a); int[] b=a.clone(); System.arraycopy(a,0,b,100,2000); sink+=Arrays.hashCode(b); }
  static void npe(){ Object o = sink>=0?null:"x"; try { sink+=o.hashCode(); } catch(NullPointerException e){ sink++; } int[] z=new int[3]; try { sink+=z[(int)(3+(sink&1))]; } catch(ArrayIndexOutOfBoundsException e){ sink++; } }
  static void big(){ java.math.BigInteger b = java.math.BigInteger.valueOf(sink|1).pow(40); sink += b.mod(java.math.BigInteger.valueOf(1000003)).intValue(); }
  static void instanceofs(){ for(Object o: new Object[]{"a",1,2L,new ArrayList<>(),shapes[0]}) sink += (o instanceof Comparable? 1:0)+(o instanceof Collection?2:0)+(o instanceof Runnable?3:0); }
  static final Runnable[] all = {JavaMix::streams,JavaMix::formats,JavaMix::exceptions,JavaMix::reflect,JavaMix::zip,JavaMix::virt,JavaMix::regex,JavaMix::maps,JavaMix::syncs,JavaMix::copy,JavaMix::npe,JavaMix::big,JavaMix::instanceofs};
  static void loop(int seed){ Random r=new Random(seed); while(!stop) { all[r.nextInt(all.length)].run(); done.incrementAndGet(); } }
  public static void main(String[] a) throws Exception { int n=Integer.parseInt(a[0]); Thread[] t=new Thread[n]; for(int i=0;i<n;i++){ int s=i; (t[i]=new Thread(()->loop(s),"mix-"+i)).start(); }
    System.out.println("ready");
    while (System.in.read() >= 0) System.out.println(done.get());
    stop = true; for (Thread x : t) x.join(); }
}
