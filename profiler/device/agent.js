// Looks at the threads of a process. The host sends the C sources when it tells it to begin. All numbers of a look are 64 bits
// wide: see looks.py.
'use strict';

const STATES = { running: 0, stopped: 1, waiting: 2, uninterruptible: 3, halted: 4 };
const MAX_FRAMES = 512;
const LOOK_WORDS = 1 << 17;
const HEADER_WORDS = 2;
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
const present = new Set(); // threads, in a look
const modules = new Map();

// On Linux and Android, Frida's list of threads stops each of them by ptrace, which can take 15 s. There we read the list from
// /proc, and running threads say by a signal where they are. Those that sleep are not woken: their place is in /proc, too.
const SIGNALS = [23, 28]; // SIGURG and SIGWINCH are ignored unless the program wants them
let ourSignal = SIGNALS[0];
const SIGACTION_BYTES = 152;
const SA_FLAGS = 0x18000004; // SA_SIGINFO, SA_RESTART, SA_ONSTACK: goroutines have small stacks
const TGKILL = { x64: 234, arm64: 131 };
const GETTID = { x64: 186, arm64: 178 };
const LEAVE_MS = 2000;
let former = null;

const isLinux = () => Process.platform === 'linux' && TGKILL[Process.arch] !== undefined;
const native = (name, result, kinds) => new NativeFunction(Module.getGlobalExportByName(name), result, kinds);

function linuxSymbols() {
  const asked = Memory.alloc(64);
  const numbers = Memory.alloc(24);
  numbers.writeU64(TGKILL[Process.arch]);
  numbers.add(8).writeU64(Process.id);
  numbers.add(16).writeU64(GETTID[Process.arch]);
  return { asked, numbers, system_call: Module.getGlobalExportByName('syscall') };
}

function signalTakeOver(compiled, symbols) {
  const isBionic = Process.findModuleByName('libc.so.6') === null && Process.findModuleByName('libdl_android.so') !== null;
  const action = Memory.alloc(SIGACTION_BYTES);
  const previous = Memory.alloc(SIGACTION_BYTES);
  const handlerAt = isBionic ? 8 : 0;
  const set = native('sigaction', 'int', ['int', 'pointer', 'pointer']);
  const handlerOf = signal => {
    set(signal, NULL, previous);
    return previous.add(handlerAt).readPointer();
  };
  const isFree = signal => handlerOf(signal).compare(1) <= 0;
  ourSignal = SIGNALS.find(isFree) ?? SIGNALS[0];
  const handler = handlerOf(ourSignal);
  if (handler.compare(1) > 0 && Process.findModuleByAddress(handler) === null)
    throw new Error('somebody else uses our signal in this process: another recording?');
  Memory.copy(action, previous, SIGACTION_BYTES); // the signals that are blocked meanwhile
  action.add(isBionic ? 0 : 136).writeU32(SA_FLAGS);
  action.add(handlerAt).writePointer(compiled.on_signal);
  symbols.asked.add(48).writePointer(handler);
  set(ourSignal, action, NULL);
  former = () => {
    const now = Memory.alloc(SIGACTION_BYTES);
    set(ourSignal, NULL, now);
    if (now.add(handlerAt).readPointer().equals(compiled.on_signal)) // else the program has another one by now
      set(ourSignal, previous, NULL);
    const until = Date.now() + LEAVE_MS; // a thread may still be in our handler, or about to enter it
    do
      Thread.sleep(0.05);
    while (symbols.asked.add(56).readInt() !== 0 && Date.now() < until);
    Thread.sleep(0.05);
  };
}

function threadIds() {
  const folder = procFolder.open(procFolder.path);
  const found = [];
  if (folder.isNull())
    return found;
  for (let entry = procFolder.read(folder); !entry.isNull(); entry = procFolder.read(folder)) {
    const id = parseInt(entry.add(19).readCString(), 10); // struct dirent, d_name
    if (!isNaN(id) && !Cloak.hasThread(id))
      found.push(id);
  }
  procFolder.close(folder);
  return found;
}

let procFolder = null;

// Bytes as characters: the kernel may cut a name within one of several bytes.
function textOf(path) {
  return String.fromCharCode(...new Uint8Array(File.readAllBytes(path)));
}

function utf8(bytes) {
  try {
    return decodeURIComponent(escape(bytes));
  } catch (error) {
    return bytes;
  }
}

function lookOnLinux(at, told) {
  for (const id of threadIds()) {
    const folder = '/proc/self/task/' + id + '/';
    let stat = '';
    let place = [];
    try {
      stat = textOf(folder + 'stat');
    } catch (error) {
      continue; // it has ended
    }
    const end = stat.lastIndexOf(')');
    tell(id, utf8(stat.slice(stat.indexOf('(') + 1, end)), told);
    let runs = stat[end + 2] === 'R';
    if (!runs) {
      try {
        place = textOf(folder + 'syscall').trim().split(' ');
        runs = place[0] === 'running'; // since then
      } catch (error) {
        place = []; // we may not
      }
    }
    if (runs)
      at = walker.running(look, at, LOOK_WORDS, id, ourSignal, mask, MAX_FRAMES);
    else if (place.length >= 3)
      at = walker.add(look, at, LOOK_WORDS, id, STATES.waiting, uint64(place.at(-1)), uint64(place.at(-2)), NO_FRAME,
        Process.pointerSize, mask, MAX_FRAMES);
    else
      at = unseen(at, id);
  }
  return at;
}

// A thread that is there, and was not seen: no frames.
function unseen(at, id) {
  if (at + 3 > LOOK_WORDS)
    return at;
  const entry = look.add(8 * at);
  entry.writeU64(id);
  entry.add(8).writeU64(STATES.waiting);
  entry.add(16).writeU64(0);
  return at + 3;
}

function tell(id, name, told) {
  present.add(id);
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
  if (inFlight > MOST_IN_FLIGHT) {
    lost++;
    return;
  }
  const told = { kind: 'look', threads: [] };
  present.clear();
  if (beganUs >= modulesDueUs) {
    modulesDueUs = beganUs + MODULES_US;
    const { found, gone } = newModules();
    if (found.length || gone.length)
      send({ kind: 'modules', found, gone });
  }
  const bytes = 8 * (isLinux() ? lookOnLinux(HEADER_WORDS, told) : lookByFrida(HEADER_WORDS, told));
  for (const id of [...names.keys()].filter(each => !present.has(each)))
    names.delete(id);
  look.writeU64(uint64(String(walker.nowUs())));
  look.add(8).writeU64(lost);
  inFlight += bytes;
  send(told, look.readByteArray(bytes));
}

function lookByFrida(at, told) {
  for (const thread of Process.enumerateThreads()) {
    tell(thread.id, thread.name || '', told);
    const context = thread.context;
    at = walker.add(look, at, LOOK_WORDS, thread.id, STATES[thread.state] ?? STATES.waiting, word(context.pc),
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
    return { arch: Process.arch, platform: Process.platform, path: Process.mainModule.path };
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
        close: native('closedir', 'int', ['pointer']), path: Memory.allocUtf8String('/proc/self/task') };
      signalTakeOver(compiled, symbols);
    }
    look = Memory.alloc(8 * LOOK_WORDS);
    // strip() removes the signature of a pointer. Of a pointer with all its bits set it leaves those of an address.
    if (Process.arch === 'arm64')
      mask = word(ptr('0x007fffffffffffff').strip());
    if (Process.arch === 'arm' && Process.platform !== 'darwin')
      framePointer = 'r11';
    periodUs = us;
    listen();
    timer = setTimeout(lookOnce, 0);
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
