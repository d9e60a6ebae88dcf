import { spawn, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { lstatSync, readFileSync, statSync } from 'node:fs'
import { chmod, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Outcome, Runtime, SandboxJob, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { type Attack, type AttackEnd, attackLimits, runOnce, whileRunning } from './attack.ts'
import { asRoot, callingPython, canaryIn, endOf, holds, hostPython, managedBy, python, wasmHas } from './programs.ts'

const collect = { files: 100, bytes: 1_000_000 }

const linking = `
os.chdir(given['into'])
path = given['path']
def linked(name, target):
    tries(name, lambda: os.symlink(target, name) is None)
linked('link', path)
linked('climbing', '../' * 12 + path[1:])
linked('folder', os.path.dirname(path))
linked('first', 'second')
linked('second', path)
linked('init', '/proc/1/root' + path)
return managed`

const linkedArtifact: Attack = {
  number: 4,
  title: 'a symbolic link to a host file is collected as a file',
  async attempt(ground) {
    const { path, text } = canaryIn(ground)
    const outcome = await ground.inside(python(linking, { path, into: '.' }, { collect }))
    const links = managedBy(outcome)
    if (links.length === 0 && ground.kind !== 'wasm') throw new Error('No link could be made.')
    return endOf(holds(outcome, text))
  },
  // What a collector that follows links brings out.
  async control(ground) {
    const { path, text } = canaryIn(ground)
    await chmod(ground.folder, 0o777)
    managedBy(await ground.outside(python(linking, { path, into: ground.folder })))
    const names = ['link', 'climbing', 'folder/canary', 'first']
    const found = await Promise.all(names.map((name) => readFile(join(ground.folder, name), 'utf8')))
    return endOf(found.every((content) => content === text))
  },
}

/** Turns `a` into a link, and back into a file, as fast as can be. */
const swapping = `
import time
os.chdir(given['into'])
open('file', 'w').write('harmless')
os.symlink(given['path'], 'link')
open('a', 'w').write('harmless')
def swap():
    end = time.monotonic() + given['seconds']
    while time.monotonic() < end:
        os.link('file', 'next'); os.rename('next', 'a')
        os.symlink(given['path'], 'next'); os.rename('next', 'a')
`

const swappedArtifact: Attack = {
  number: 5,
  title: 'a file is swapped for a symbolic link while files are collected',
  async attempt({ runtime, ...ground }) {
    const { path, text } = canaryIn({ runtime, ...ground })
    const given = { path, into: '.', seconds: 10 }
    const job = python(`${swapping}\nif os.fork() == 0:\n    swap()\n    os._exit(0)`, given, { collect })
    const outcomes = await turns(runtime, [job, ...Array<SandboxJob>(20).fill(python('pass', null, { collect }))])
    if (!outcomes.some((outcome) => holds(outcome, 'harmless'))) throw new Error('The file was never collected.')
    return endOf(outcomes.some((outcome) => holds(outcome, text)))
  },
  // A collector that checks first and opens afterwards is caught soon.
  async control(ground) {
    const { path, text } = canaryIn(ground)
    const given = JSON.stringify({ path, into: ground.folder, seconds: 15 })
    const swapper = spawn(hostPython, [
      '-c',
      `import os, json\ngiven = json.loads(${JSON.stringify(given)})\n${swapping}\nprint(1, flush=True)\nswap()`,
    ])
    try {
      await new Promise((resolve) => swapper.stdout.once('data', resolve))
      return endOf(caught(join(ground.folder, 'a'), text))
    } finally {
      swapper.kill('SIGKILL')
    }
  },
  explained: {
    temporal: 'A sandbox runs one program, and then it is gone: a race over several runs needs a session.',
    wasm: `${wasmHas.noLinks} Nothing runs in it while files are collected.`,
  },
}

function caught(path: string, text: string): boolean {
  for (const end = Date.now() + 10_000; Date.now() < end; ) {
    if (lstatSync(path).isFile() && readFileSync(path, 'utf8') === text) return true
  }
  return false
}

/** Several programs in one interpreter, whose files are collected while it lives. */
async function turns(runtime: Runtime, jobs: readonly SandboxJob[]): Promise<Outcome[]> {
  const spec: SandboxSpec = { language: 'python', limits: attackLimits, network: 'none', session: true }
  const sandbox = await runtime.open(spec, AbortSignal.timeout(30_000))
  try {
    const outcomes: Outcome[] = []
    for (const job of jobs) outcomes.push(await sandbox.run(job, AbortSignal.timeout(30_000)))
    return outcomes
  } finally {
    await sandbox.dispose()
  }
}

const hardLinking = `
for target in given['targets']:
    for folder in given['into']:
        tries(target, lambda: os.link(target, os.path.join(folder, 'hard')) is None)
        def by_descriptor():
            file = os.open(target, os.O_RDONLY)
            places = (f'/proc/self/fd/{file}', os.path.join(folder, 'by-descriptor'))
            source, name = (ctypes.c_char_p(place.encode()) for place in places)
            return call('linkat', -100, source, -100, name, 0x400) == 0
        tries(target, by_descriptor)
return managed`

const hardLink: Attack = {
  number: 6,
  title: 'a hard link to a file that is mounted read-only',
  async attempt(ground) {
    const targets = ['/usr/bin/env', '/gantry/init', '/etc/passwd', '/proc/self/exe']
    const links = statSync('/usr/bin/env').nlink
    const managed = managedBy(await ground.inside(callingPython(hardLinking, { targets, into: ['.', '/tmp'] })))
    return endOf(managed.length > 0 || statSync('/usr/bin/env').nlink !== links)
  },
  async control(ground) {
    const { path } = canaryIn(ground)
    await chmod(ground.folder, 0o777)
    managedBy(await ground.outside(callingPython(hardLinking, { targets: [path], into: [ground.folder] })))
    return endOf((await stat(path)).nlink === 3)
  },
  explained: { wasm: wasmHas.noLinks },
}

const specialFiles = `
import socket, stat
os.chdir(given)
tries('pipe', lambda: os.mkfifo('pipe') is None)
tries('device', lambda: os.mknod('device', 0o666 | stat.S_IFCHR, os.makedev(1, 5)) is None)
tries('disk', lambda: os.mknod('disk', 0o666 | stat.S_IFBLK, os.makedev(254, 0)) is None)
tries('socket', lambda: socket.socket(socket.AF_UNIX).bind('socket') is None)
return managed`

const specialArtifact: Attack = {
  number: 7,
  title: 'a pipe, a device and a socket are collected as files: nothing hangs, none is opened',
  async attempt(ground) {
    const outcome = await ground.inside(python(specialFiles, '.', { collect }), {
      limits: { ...attackLimits, wallMs: 8_000 },
    })
    if (!managedBy(outcome).includes('pipe')) throw new Error('No pipe could be made.')
    return endOf(outcome.files.size > 0)
  },
  // A collector that opens the pipe for reading blocks for ever; the device never ends.
  control: asRoot(async (ground) => {
    await chmod(ground.folder, 0o777)
    managedBy(await ground.outside(python(specialFiles, ground.folder)))
    const pipe = spawnSync('cat', [join(ground.folder, 'pipe')], { timeout: 300 })
    const device = spawnSync('head', ['-c', '100', join(ground.folder, 'device')])
    return endOf(pipe.signal === 'SIGTERM' && device.stdout.length === 100)
  }),
  explained: { wasm: wasmHas.noLinks },
}

/** Searches every path where another sandbox could be. */
const searching = `
import glob
name = given
places = ['/proc/[0-9]*/cwd/', '/proc/[0-9]*/root/work/', '/proc/[0-9]*/root/tmp/', '/tmp/', '/tmp/*/', '/tmp/*/*/',
  '/tmp/*/*/*/', '/var/tmp/', '/dev/shm/', '/work/*/', '../', '../*/', '../../*/', os.path.expanduser('~/')]
def content(path):
    # A process through whose folder the file was found may have ended.
    try: return open(path).read()
    except OSError: return ''
return [content(path) for place in places for path in glob.glob(place + name)]`

const otherSandbox: Attack = {
  number: 10,
  title: "read another sandbox's workspace while it runs",
  attempt: ({ runtime }) => spied(runtime),
  control: ({ unguarded }) => spied(unguarded),
}

/** One program writes a file and waits; another looks for it. */
async function spied(runtime: Runtime): Promise<AttackEnd> {
  const [name, text] = [`mine-${randomUUID()}`, `canary-${randomUUID()}`]
  const victim = python(
    `import time\nopen(given['name'], 'w').write(given['text'])\nprint('written', flush=True)\ntime.sleep(15)`,
    { name, text },
  )
  const outcome = await whileRunning(runtime, victim, () => runOnce(runtime, python(searching, name)))
  if (!Array.isArray(outcome.value)) throw new Error('The search did not get to its end.')
  return endOf(holds(outcome, text))
}

const leaving = `
name, text = given['name'], given['text']
for folder in ('.', '/tmp', '/var/tmp', '/dev/shm', os.path.expanduser('~')):
    try: open(os.path.join(folder, name), 'w').write(text)
    except OSError: pass
return managed`

const leftovers: Attack = {
  number: 11,
  title: 'read files that an earlier program left behind',
  attempt: async ({ inside }) => leftBehind(inside),
  control: async ({ outside }) => leftBehind(outside),
}

async function leftBehind(run: (job: SandboxJob) => Promise<Outcome>): Promise<AttackEnd> {
  const [name, text] = [`left-${randomUUID()}`, `canary-${randomUUID()}`]
  try {
    managedBy(await run(python(leaving, { name, text })))
    const outcome = await run(python(searching, name))
    if (!Array.isArray(outcome.value)) throw new Error('The search did not get to its end.')
    return endOf(holds(outcome, text))
  } finally {
    for (const folder of [tmpdir(), '/var/tmp', '/dev/shm', process.env.HOME ?? '/'])
      await rm(join(folder, name), { force: true })
  }
}

/** Of 1–12 those that work by links, special files and the files of others. */
export const linkAttacks: readonly Attack[] = [
  linkedArtifact,
  swappedArtifact,
  hardLink,
  specialArtifact,
  otherSandbox,
  leftovers,
]
