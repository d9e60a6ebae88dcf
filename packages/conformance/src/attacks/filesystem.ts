import { execFileSync, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Json } from '@gantry/contract'
import type { Outcome, SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import { createProcessRuntime } from '@gantry/sandbox/internal/drivers/process'
import { type Attack, attackLimits, type Ground } from './attack.ts'
import { linkAttacks } from './filesystem-links.ts'
import { containersOfSandboxes, tracesOfSandboxes } from './host.ts'
import {
  asRoot,
  canaryIn,
  endOf,
  isRoot,
  javascript,
  lastNumber,
  managedBy,
  onHost,
  python,
  stranger,
  throughJavaScript,
  tooMuchIn,
  wasmHas,
} from './programs.ts'

const mebi = 1024 * 1024

/** What a kernel needs for a file or folder that is there at least, wherever it keeps it. */
const inodeBytes = 512

/** Each in the folder that it is given. Too large to exist, but a file can claim it. */
const mostLooks = 100

const sparse = `
os.chdir(given)
file = os.open('sparse', os.O_CREAT | os.O_WRONLY)
tries('sparse', lambda: os.truncate(file, 1 << 40) is None)
return managed`

const deep = `
os.chdir(given)
def dig():
    for _ in range(4_000):
        os.mkdir('deep')
        os.chdir('deep')
    return True
tries('deep', dig)
return managed`

const crowded = `
for number in range(1, 1_000_001):
    os.mkdir(str(number))
    if number % 1_000 == 0: print(number, flush=True)`

const heavyWorkspace: Attack = {
  number: 8,
  title: 'a sparse file of 1 TB, a million inodes, directories 4,000 deep: the run ends and all of it is removed',
  async attempt({ inside, note }) {
    const before = await allTraces()
    const limits = { ...attackLimits, memoryBytes: 64 * mebi, wallMs: 6_000 }
    const more = { collect: { files: 10, bytes: 1_000_000 } }
    for (const code of [sparse, deep]) {
      const outcome = await inside(python(code, '.', more), { limits })
      managedBy(outcome)
      if (bytesOut(outcome) > 1_000_000) return 'succeeded'
    }
    const outcome = await inside(python(crowded, null, more), { limits })
    const made = lastNumber(outcome)
    note(`${made} folders were made`)
    const now = await settledTraces(before)
    if (now !== before) {
      note(`${before} became ${now}`)
      return 'succeeded'
    }
    return made * inodeBytes > limits.memoryBytes ? tooMuchIn(outcome) : 'blocked'
  },
  // On a disk of the host both can be made, and a removal by paths does not get to the end.
  async control({ folder }) {
    for (const code of [sparse, deep]) onHost(python(code, folder))
    const { size } = await stat(join(folder, 'sparse'))
    await rm(join(folder, 'deep'), { recursive: true }).catch(() => undefined)
    const left = existsSync(join(folder, 'deep'))
    execFileSync('rm', ['-rf', join(folder, 'deep')])
    return endOf(size === 2 ** 40 && left)
  },
  explained: { wasm: `${wasmHas.noLinks} How much it may hold is attack 59.` },
}

async function allTraces(): Promise<string> {
  return JSON.stringify([tracesOfSandboxes(), await containersOfSandboxes()])
}

/** Containers are removed in the background, and mounts of other processes come and go: looks again until all is as before. */
async function settledTraces(before: string): Promise<string> {
  for (let look = 0; ; look++) {
    const now = await allTraces()
    if (now === before || look === mostLooks) return now
    await pause(100)
  }
}

function bytesOut({ files }: Outcome): number {
  return [...files.values()].reduce((sum, file) => sum + file.length, 0)
}

const closed = `
import fcntl, struct
os.chdir(given)
os.makedirs('a/b/c')
open('a/b/c/file', 'w').write('kept')
for path in ('a/b/c', 'a/b', 'a'): os.chmod(path, 0)
# Root may make a folder that not even root can change; other users may not.
tries('immutable', lambda: fcntl.ioctl(os.open('.', os.O_RDONLY), 0x40086602, struct.pack('l', 0x10)) is not None)
return managed`

const closedFolders: Attack = {
  number: 9,
  title: 'directories that no user may enter or change are left behind',
  async attempt({ inside }) {
    const before = await allTraces()
    const managed = managedBy(await inside(python(closed, '.', { collect: { files: 10, bytes: 10_000 } })))
    return endOf(managed.length > 0 || (await settledTraces(before)) !== before)
  },
  // An ordinary user that removes what it has made gets stuck.
  async control({ folder }) {
    const own = join(folder, 'own')
    const who = isRoot ? { uid: stranger, gid: stranger } : {}
    await mkdir(own)
    await chmod(folder, 0o755)
    if (isRoot) await chown(own, stranger, stranger)
    onHost(python(closed, own), who)
    spawnSync('rm', ['-rf', join(own, 'a')], { ...who, cwd: '/', stdio: 'ignore' })
    const left = existsSync(join(own, 'a'))
    for (const path of ['a', 'a/b', 'a/b/c']) await chmod(join(own, path), 0o700)
    return endOf(left)
  },
  explained: { wasm: wasmHas.noLinks },
}

const replacedRoot: Attack = {
  number: 12,
  title: 'the directory of sandboxes is replaced by a link, or by a directory of another user, before the start',
  async attempt(ground) {
    await chmod(ground.folder, 0o755)
    const own = join(ground.folder, 'own')
    if (!(await isServedIn(own))) throw new Error('A folder as it should be is refused too.')
    for (const trap of [await linkedRoot(ground), await foreignRoot(ground), await openRoot(ground)]) {
      if ((await isServedIn(trap.root)) || (await readdir(trap.behind)).length > 0) return 'succeeded'
    }
    return 'blocked'
  },
  // Bubblewrap follows the link and binds whatever is behind it.
  control: asRoot(async (ground) => {
    const { text } = canaryIn(ground)
    const shown = join(ground.folder, 'shown')
    await symlink(ground.folder, shown)
    const args = ['--unshare-all', '--ro-bind', '/', '/', '--ro-bind', shown, '/mnt', 'cat', '/mnt/canary']
    return endOf(execFileSync('bwrap', args, { encoding: 'utf8', timeout: 10_000 }) === text)
  }),
  explained: { wasm: 'Nothing of the host is mounted: there is no folder to replace.' },
}

async function isServedIn(root: string): Promise<boolean> {
  const runtime = createProcessRuntime({ root })
  try {
    return (await runtime.probe(AbortSignal.timeout(30_000))).available
  } finally {
    await runtime.close()
  }
}

/** A folder of sandboxes that is not ours, and where it leads. */
interface Trap {
  readonly root: string
  readonly behind: string
}

async function linkedRoot({ folder }: Ground): Promise<Trap> {
  const [root, behind] = [join(folder, 'link'), join(folder, 'behind')]
  await mkdir(behind)
  await symlink(behind, root)
  return { root, behind }
}

async function foreignRoot({ folder }: Ground): Promise<Trap> {
  const root = join(folder, 'foreign')
  await mkdir(root)
  // Only root can give a folder away.
  if (isRoot) await chown(root, stranger, stranger)
  else await chmod(root, 0o770)
  return { root, behind: root }
}

async function openRoot({ folder }: Ground): Promise<Trap> {
  const root = join(folder, 'open')
  await mkdir(root)
  await chmod(root, 0o777)
  return { root, behind: root }
}

/** The attacks of 1–12 that target what remains on the host. */
export const tracesAttacks: readonly Attack[] = [heavyWorkspace, closedFolders, replacedRoot]

/** The same program in both languages where a runtime reads both in ways of its own. */
function jobsFor({ kind }: Ground, code: { readonly python: string; readonly javascript: string }, given: Json) {
  const jobs: readonly SandboxJob[] = [python(code.python, given), javascript(code.javascript, given)]
  return kind === 'wasm' ? jobs : jobs.slice(0, 1)
}

async function each(jobs: readonly SandboxJob[], run: (job: SandboxJob) => Promise<Outcome>): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  for (const job of jobs) outcomes.push(await run(job))
  return outcomes
}

const reading = {
  python: `${throughJavaScript}
seen = []
climb = '../' * 12
for path in given:
    for way in (path, '/proc/1/root' + path, '/proc/self/root' + path, '/proc/self/cwd/' + climb + path, climb + path[1:]):
        try: seen.append(open(way, 'rb').read(4096).decode('latin1'))
        except OSError: pass
    seen.append(by_javascript(f"process.getBuiltinModule('fs').readFileSync({json.dumps(path)}, 'utf8')"))
return seen`,
  javascript: `
const fs = await import('fs')
const seen = []
const climb = '../'.repeat(12)
const host = () => globalThis.constructor.constructor('return process')()
for (const path of given) {
  try { seen.push(host().getBuiltinModule('fs').readFileSync(path, 'utf8')) } catch {}
  try { seen.push(host().mainModule.require('fs').readFileSync(path, 'utf8')) } catch {}
  for (const way of [path, '/proc/self/root' + path, climb + path.slice(1), 'file://' + path, './/' + climb + path]) {
    try { seen.push(fs.readFileSync(way, 'utf8').slice(0, 4096)) } catch {}
  }
}
return seen`,
}

const readSecrets: Attack = {
  number: 1,
  title: 'read /etc/shadow, keys and settings of the host',
  async attempt(ground) {
    const { jobs, secrets } = await secretsFor(ground)
    const outcomes = await each(jobs, ground.inside)
    return endOf(outcomes.some((outcome) => secrets.some((secret) => seenIn(outcome).includes(secret))))
  },
  async control(ground) {
    const { jobs, secrets } = await secretsFor(ground)
    const outcomes = await each(jobs, ground.outside)
    return endOf(outcomes.every((outcome) => secrets.every((secret) => seenIn(outcome).includes(secret))))
  },
}

async function secretsFor(ground: Ground) {
  const canary = canaryIn(ground, '.env')
  const shadow = await readFile('/etc/shadow', 'latin1').catch(() => '')
  const secrets = [canary.text, ...(shadow === '' ? [] : [shadow.slice(0, 4_096)])]
  return { jobs: jobsFor(ground, reading, [canary.path, '/etc/shadow']), secrets }
}

function seenIn({ exit, value }: Outcome): readonly Json[] {
  if (!('code' in exit) || exit.code !== 0 || !Array.isArray(value)) throw new Error('The program did not end well.')
  return value
}

const writing = {
  python: `
for path in given:
    try: open(path, 'a').write('written')
    except OSError: pass
    try: os.remove(path + '.gone')
    except OSError: pass
return managed`,
  javascript: `
const fs = await import('fs')
for (const path of given) {
  try { fs.appendFileSync(path, 'written') } catch {}
  try { fs.unlinkSync(path + '.gone') } catch {}
}
return []`,
}

const writeOutside: Attack = {
  number: 2,
  title: 'write and remove files outside the workspace',
  async attempt(ground) {
    const { ledger, text } = await ledgerIn(ground)
    const name = `gantry-attack-${randomUUID()}`
    const places = ['/', '/etc', '/usr', '/usr/lib', '/root', '/home', '/var/tmp', '/gantry', '/opt', '/dev', tmpdir()]
    const paths = places.map((folder) => join(folder, name))
    const given = [ledger, ...paths, `${'../'.repeat(12)}${ledger.slice(1)}`]
    for (const outcome of await each(jobsFor(ground, writing, given), ground.inside)) seenIn(outcome)
    const made = paths.filter(existsSync)
    await Promise.all(made.map((path) => rm(path)))
    const isAsBefore = (await readFile(ledger, 'utf8')) === text && existsSync(`${ledger}.gone`)
    return endOf(!isAsBefore || made.length > 0)
  },
  async control(ground) {
    const { ledger, text } = await ledgerIn(ground)
    await each(jobsFor(ground, writing, [ledger]), ground.outside)
    return endOf((await readFile(ledger, 'utf8')) !== text && !existsSync(`${ledger}.gone`))
  },
}

async function ledgerIn(ground: Ground): Promise<{ ledger: string; text: string }> {
  const { path: ledger, text } = canaryIn(ground, 'ledger')
  await chmod(ground.folder, 0o777)
  await writeFile(`${ledger}.gone`, '')
  return { ledger, text }
}

/** Names that lead out of a folder when they are joined to it, on some system or other. */
const oddNames = ['..\\..\\up', 'a\nb', '-rf', '....', '\u202e.txt', 'C:up', '~', '$(id)', ' ', 'nul\u0001']

const climbingNames: Attack = {
  number: 3,
  title: 'file names that escape the workspace, as input and as output',
  async attempt(ground) {
    const { ledger, text } = await ledgerIn(ground)
    const files = (path: string) => new Map([[path, Buffer.from('climbed')]])
    for (const path of [`${'../'.repeat(12)}${ledger.slice(1)}`, ledger, `a/../../../../../../../..${ledger}`]) {
      // Refused or written inside; what counts is the ledger.
      await ground.inside(python('return managed', null, { files: files(path) })).catch(() => undefined)
    }
    const code = `
for name in given:
    try: open(name, 'w').write('out')
    except OSError: pass
try: open(b'\\xff\\xfe', 'w').write('out')
except (OSError, ValueError): pass
return managed`
    const outcome = await ground.inside(python(code, oddNames, { collect: { files: 100, bytes: 100_000 } }))
    managedBy(outcome)
    const climbs = [...outcome.files.keys()].some((name) => !resolve('/a/b', name).startsWith('/a/b/'))
    return endOf(climbs || (await readFile(ledger, 'utf8')) !== text || outcome.files.size === 0)
  },
  // What a collector that joins names as they are does.
  async control(ground) {
    const { ledger, text } = await ledgerIn(ground)
    await mkdir(join(ground.folder, 'workspace'))
    await writeFile(`${ground.folder}/workspace/../ledger`, 'climbed')
    return endOf((await readFile(ledger, 'utf8')) !== text)
  },
}

/** 1–12: files of the host, of other sandboxes, and what is collected. */
export const filesystemAttacks: readonly Attack[] = [
  ...[readSecrets, writeOutside, climbingNames, ...linkAttacks, ...tracesAttacks],
].sort((one, other) => one.number - other.number)
