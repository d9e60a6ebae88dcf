import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, readdir, rm, stat, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { Outcome } from '@gantry/core/internal/runtimes/runtime'
import { createProcessRuntime } from '@gantry/sandbox/internal/drivers/process'
import type { Attack, Ground } from './attack.ts'
import { tracesOfSandboxes } from './host.ts'
import {
  asRoot,
  canaryIn,
  endOf,
  isRoot,
  lastNumber,
  managedBy,
  onHost,
  python,
  stranger,
  tooMuchIn,
  wasmHas,
} from './programs.ts'
import { attackLimits } from './run.ts'

const mebi = 1024 * 1024

/** What a kernel needs for a file or folder that is there at least, wherever it keeps it. */
const inodeBytes = 512

/** Each in the folder that it is told. Too large to be there, but a file can say so. */
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
  title: 'a sparse file of 1 TB, a million inodes, folders 4,000 deep: the run ends and all of it goes',
  async attempt({ inside, note }) {
    const before = tracesOfSandboxes()
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
    if (JSON.stringify(tracesOfSandboxes()) !== JSON.stringify(before)) return 'succeeded'
    return made * inodeBytes > limits.memoryBytes ? tooMuchIn(outcome) : 'blocked'
  },
  // On a disk of the host both can be made, and whoever removes folders by their paths does not get to the end.
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

function bytesOut({ files }: Outcome): number {
  return [...files.values()].reduce((sum, file) => sum + file.length, 0)
}

const closed = `
import fcntl, struct
os.chdir(given)
os.makedirs('a/b/c')
open('a/b/c/file', 'w').write('kept')
for path in ('a/b/c', 'a/b', 'a'): os.chmod(path, 0)
# Root may make a folder that not even root changes; everybody else is refused.
tries('immutable', lambda: fcntl.ioctl(os.open('.', os.O_RDONLY), 0x40086602, struct.pack('l', 0x10)) is not None)
return managed`

const closedFolders: Attack = {
  number: 9,
  title: 'folders that nobody may enter, or that may not be changed, stay behind',
  async attempt({ inside }) {
    const before = tracesOfSandboxes()
    const managed = managedBy(await inside(python(closed, '.', { collect: { files: 10, bytes: 10_000 } })))
    return endOf(managed.length > 0 || JSON.stringify(tracesOfSandboxes()) !== JSON.stringify(before))
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
  title: 'the folder of sandboxes is replaced by a link, or by a folder of somebody else, before the start',
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

/** Of 1–12 those that are after what stays on the host. */
export const tracesAttacks: readonly Attack[] = [heavyWorkspace, closedFolders, replacedRoot]
