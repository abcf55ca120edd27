// Looks at the threads of a process at a fixed rate. The host sends the C sources when it tells it to begin. All numbers of a look are 64 bits wide: see looks.py.
'use strict';

const STATES = { running: 0, stopped: 1, waiting: 2, uninterruptible: 3, halted: 4 };
const MAX_FRAMES = 512;
const LOOK_WORDS = 1 << 17;
const HEADER_WORDS = 2;
const HEADER_BYTES = 4096; // of a module: its file says which it is
const MODULES_US = 1000000;
const MOST_IN_FLIGHT = 1 << 22; // bytes: the rest is not sent, and counted
const NO_FRAME = uint64('0xfffffffffff0'); // of a thread whose frame pointer is not known
const FRAME_POINTERS = { x64: 'rbp', ia32: 'ebp', arm64: 'fp', arm: 'r7' };

let walker = null;
let look = null;
let mask = uint64('0xffffffffffffffff');
let framePointer = FRAME_POINTERS[Process.arch];
let periodUs = 20000;
let isPaused = false;
let timer = null;
let inFlight = 0;
let lost = 0;
let modulesDueUs = 0;
const names = new Map();
const modules = new Map();

// On Linux and Android, Frida's list of threads stops each of them by ptrace, which can take 15 s. There we read the list from
// /proc, and running threads say by a signal where they are. Those that sleep are not woken: their place is in /proc, too.
const SIGURG = 23; // ignored unless the program wants it
const SIGACTION_BYTES = 152;
const SA_SIGINFO_RESTART = 0x10000004;
const TGKILL = { x64: 234, arm64: 131 };
const LEAVE_MS = 2000;
let former = null;

const isLinux = () => Process.platform === 'linux' && TGKILL[Process.arch] !== undefined;
const native = (name, result, kinds) => new NativeFunction(Module.getGlobalExportByName(name), result, kinds);

function linuxSymbols() {
  const asked = Memory.alloc(64);
  const numbers = Memory.alloc(16);
  numbers.writeU64(TGKILL[Process.arch]);
  numbers.add(8).writeU64(Process.id);
  return { asked, numbers, own_tid: Module.getGlobalExportByName('gettid'), system_call: Module.getGlobalExportByName('syscall') };
}

function signalTakeOver(compiled, symbols) {
  const isBionic = Process.findModuleByName('libc.so.6') === null && Process.findModuleByName('libdl_android.so') !== null;
  const action = Memory.alloc(SIGACTION_BYTES);
  const previous = Memory.alloc(SIGACTION_BYTES);
  action.add(isBionic ? 0 : 136).writeU32(SA_SIGINFO_RESTART);
  action.add(isBionic ? 8 : 0).writePointer(compiled.on_signal);
  const set = native('sigaction', 'int', ['int', 'pointer', 'pointer']);
  set(SIGURG, NULL, previous);
  symbols.asked.add(48).writePointer(previous.add(isBionic ? 8 : 0).readPointer());
  set(SIGURG, action, NULL);
  former = () => {
    set(SIGURG, previous, NULL);
    const until = Date.now() + LEAVE_MS; // a thread may still be in our handler, or about to enter it
    do
      Thread.sleep(0.05);
    while (symbols.asked.add(56).readInt() !== 0 && Date.now() < until);
  };
}

function threadIds() {
  const folder = procFolder.open(Memory.allocUtf8String('/proc/self/task'));
  const found = [];
  for (let entry = procFolder.read(folder); !entry.isNull(); entry = procFolder.read(folder)) {
    const id = parseInt(entry.add(19).readCString(), 10); // struct dirent, d_name
    if (!isNaN(id) && !Cloak.hasThread(id))
      found.push(id);
  }
  procFolder.close(folder);
  return found;
}

let procFolder = null;

function lookOnLinux(at, told) {
  for (const id of threadIds()) {
    const folder = '/proc/self/task/' + id + '/';
    let stat, place;
    try {
      stat = File.readAllText(folder + 'stat');
      place = File.readAllText(folder + 'syscall').trim().split(' ');
    } catch (error) {
      continue; // it has ended, or we may not
    }
    const end = stat.lastIndexOf(')');
    tell(id, stat.slice(stat.indexOf('(') + 1, end), told);
    if (stat[end + 2] === 'R')
      at = walker.running(look, at, LOOK_WORDS, id, SIGURG, mask, MAX_FRAMES);
    else if (place.length >= 3)
      at = walker.add(look, at, LOOK_WORDS, id, STATES.waiting, uint64(place.at(-1)), uint64(place.at(-2)), NO_FRAME,
        Process.pointerSize, mask, MAX_FRAMES);
  }
  return at;
}

function tell(id, name, told) {
  if (names.get(id) === name)
    return;
  names.set(id, name);
  told.threads.push([id, name]);
}

function newModules() {
  const found = [];
  const seen = new Set();
  for (const module of Process.enumerateModules()) {
    const key = module.base + ' ' + module.path;
    seen.add(key);
    if (modules.has(key))
      continue;
    modules.set(key, module.base);
    found.push({ base: module.base.toString(), size: module.size, path: module.path });
  }
  const gone = [];
  for (const [key, base] of modules) {
    if (!seen.has(key)) {
      modules.delete(key);
      gone.push(base.toString());
    }
  }
  return { found, gone };
}

function lookOnce() {
  timer = null;
  const beganUs = walker.nowUs().toNumber();
  if (!isPaused) {
    try {
      takeLook(beganUs);
    } catch (error) {
      send({ kind: 'error', text: String(error) });
    }
  }
  const tookUs = walker.nowUs().toNumber() - beganUs;
  // At random distances, so that no work of the program is in step with us. Never more than half of the time.
  const untilNextUs = periodUs * (0.5 + Math.random());
  timer = setTimeout(lookOnce, Math.max(untilNextUs - tookUs, tookUs) / 1000);
}

function takeLook(beganUs) {
  const told = { kind: 'look', threads: [] };
  if (beganUs >= modulesDueUs) {
    modulesDueUs = beganUs + MODULES_US;
    const { found, gone } = newModules();
    if (found.length || gone.length)
      send({ kind: 'modules', found, gone });
  }
  let at = HEADER_WORDS;
  at = isLinux() ? lookOnLinux(at, told) : lookByFrida(at, told);
  const bytes = 8 * at;
  if (inFlight + bytes > MOST_IN_FLIGHT) {
    lost++;
    return;
  }
  look.writeU64(uint64(String(walker.nowUs())));
  look.add(8).writeU64(lost);
  inFlight += bytes;
  send(told, look.readByteArray(bytes));
}

function lookByFrida(at, told) {
  for (const thread of Process.enumerateThreads()) {
    tell(thread.id, thread.name || '', told);
    const context = thread.context;
    const state = STATES[thread.state];
    at = walker.add(look, at, LOOK_WORDS, thread.id, state === undefined ? STATES.waiting : state, word(context.pc),
      word(context.sp), word(context[framePointer]), Process.pointerSize, mask, MAX_FRAMES);
  }
  return at;
}

function word(pointer) {
  return uint64(pointer.toString());
}

function listen() {
  recv('taken', message => {
    inFlight -= message.bytes;
    listen();
  });
}

rpc.exports = {
  about() {
    return { arch: Process.arch, platform: Process.platform, pointerSize: Process.pointerSize, pid: Process.id,
      path: Process.mainModule.path, frida: Frida.version };
  },
  begin(source, linuxSource, us) {
    const symbols = isLinux() ? linuxSymbols() : {};
    const compiled = new CModule(isLinux() ? source + linuxSource : source, symbols);
    walker = {
      add: new NativeFunction(compiled.look_add, 'uint', ['pointer', 'uint', 'uint', 'uint64', 'uint', 'uint64', 'uint64',
        'uint64', 'uint', 'uint64', 'uint']),
      nowUs: new NativeFunction(compiled.now_us, 'uint64', []),
      used: [compiled, symbols],
    };
    if (isLinux()) {
      walker.running = new NativeFunction(compiled.look_running, 'uint', ['pointer', 'uint', 'uint', 'uint64', 'uint',
        'uint64', 'uint']);
      procFolder = { open: native('opendir', 'pointer', ['pointer']), read: native('readdir', 'pointer', ['pointer']),
        close: native('closedir', 'int', ['pointer']) };
      signalTakeOver(compiled, symbols);
    }
    look = Memory.alloc(8 * LOOK_WORDS);
    // What of a pointer is no signature is what is left of one with all bits of an address.
    if (Process.arch === 'arm64')
      mask = word(ptr('0x007fffffffffffff').strip());
    if (Process.arch === 'arm' && Process.platform !== 'darwin')
      framePointer = 'r11';
    periodUs = us;
    listen();
    lookOnce();
  },
  setPeriod(us) {
    periodUs = us;
  },
  setPaused(paused) {
    isPaused = paused;
  },
  read(address, size) {
    try {
      return ptr(address).readByteArray(size);
    } catch (error) {
      return new ArrayBuffer(0);
    }
  },
  names(addresses) {
    return addresses.map(each => {
      const symbol = DebugSymbol.fromAddress(ptr(each));
      return [symbol.name, symbol.fileName, symbol.lineNumber];
    });
  },
  // Frida calls it before the script goes, also when the connection is lost.
  dispose() {
    if (timer !== null)
      clearTimeout(timer);
    timer = null;
    if (former !== null)
      former();
    former = null;
  },
};
