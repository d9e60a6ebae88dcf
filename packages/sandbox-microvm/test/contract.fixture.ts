import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { compileFilter } from '@gantry/sandbox/internal/process/seccomp/filters'
import type { FirecrackerOptions } from '@gantry/sandbox-microvm'

/** Programs in place of Firecracker and its jailer, with an image for them. */
export interface Contract {
  readonly options: FirecrackerOptions
  /** Where the runtime keeps its folders. */
  readonly root: string
  /** Makes requests of every machine that starts later fail, by method and path. */
  fail(faults: {
    readonly [request: string]: { readonly do: 'refuse' | 'die' | 'hang'; readonly message?: string }
  }): void
  remove(): void
}

/** Why the contract server cannot run here. */
export const missingContract =
  process.platform !== 'linux' || process.arch !== 'x64'
    ? 'Firecracker needs Linux on an x64 processor.'
    : process.getuid?.() === 0 && existsSync('/usr/bin/bwrap')
      ? undefined
      : 'The jailer needs root, and the sandbox of the contract server needs bubblewrap in /usr/bin.'

const digest = 'f'.repeat(64)
const native = join(import.meta.dirname, '../../sandbox/native')
const programs = ['/usr/bin/python3', '/usr/bin/bash', '/bin/bash', '/usr/bin/sh', '/bin/sh']

/** Lays everything out in one folder that every user can read. */
export function createContract(): Contract {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-contract-'))
  chmodSync(folder, 0o755)
  const parts = join(folder, 'release')
  mkdirSync(parts)
  try {
    linkSync(process.execPath, join(parts, 'node'))
  } catch {
    copyFileSync(process.execPath, join(parts, 'node'))
  }
  cpSync(join(import.meta.dirname, 'contract'), join(parts, 'contract'), { recursive: true })
  cpSync(join(native, 'drivers'), join(parts, 'drivers'), { recursive: true })
  copyFileSync(join(native, 'bin/gantry-sandbox-linux-x64'), join(parts, 'launcher'))
  chmodSync(join(parts, 'launcher'), 0o755)
  mkdirSync(join(parts, 'filters'))
  for (const name of ['base', 'strict'] as const) {
    writeFileSync(join(parts, 'filters', name), compileFilter('x64', name))
  }
  for (const name of ['firecracker', 'jailer']) {
    const script = `#!/bin/sh\nexport OPENSSL_CONF=/dev/null\nexec "\${0%/*}/node" --disable-warning=ExperimentalWarning "\${0%/*}/contract/${name}.ts" "$@"\n`
    writeFileSync(join(parts, name), script)
    chmodSync(join(parts, name), 0o755)
  }
  const [store, root] = [join(folder, 'store'), join(folder, 'root')]
  writeImage(store)
  const faults = join(parts, 'faults.json')
  return {
    root,
    options: { program: join(parts, 'firecracker'), jailer: join(parts, 'jailer'), store, root, image: 'standard' },
    fail: (given) => writeFileSync(faults, JSON.stringify(given)),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** The files that Firecracker looks at; what runs is of this machine. */
function writeImage(store: string): void {
  const folder = join(store, 'images', digest)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'vmlinux'), '\x7fELF')
  for (const name of ['initrd', 'system.ext4']) writeFileSync(join(folder, name), name)
  const labels = {
    'dev.gantry.parts': digest,
    'dev.gantry.programs': programs.filter((path) => existsSync(path)).join(' '),
    'dev.gantry.node': 'true',
  }
  const createdAt = new Date(0).toISOString()
  const description = { digest: `sha256:${digest}`, flavour: 'standard', kernel: 'none', createdAt, bytes: 4, labels }
  writeFileSync(join(folder, 'image.json'), JSON.stringify(description))
  symlinkSync(digest, join(store, 'images', 'standard'))
}
