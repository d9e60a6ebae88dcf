import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/**
 * Builds the native launcher for both architectures reproducibly: one compiler version, pinned by hash, with its own C
 * library. `--check` builds into a temporary folder and compares with the committed binaries.
 */
const root = dirname(import.meta.dirname)
const native = join(root, 'packages/sandbox/native')
const targets = { x64: 'x86_64-linux-musl', arm64: 'aarch64-linux-musl' } as const
const compiler = 'ziglang 0.13.0'
/** Of the package on PyPI, by machine: Linux x64 and arm64, macOS x64 and arm64. */
const wheels = [
  '3ce0c9f16547e5d61b32e0d226926e9a2552ef4b91fccf7ab5ea1a623a77824b',
  '5714a4d46f9246ba6180a0930e23df2bc8bc26e62b5fe0dc798b4afca1903308',
  'd1b00173b8a5bfbaccb255240b8c091bd523c13743178bc248355ec6484fced7',
  '5408ad3a6cb342fb4e4e2351a3725adfcae82eaadebe85fdbbdad9c0ac8b1e24',
]
const flags = [
  '-std=c11',
  '-D_GNU_SOURCE',
  '-Os',
  '-static',
  '-s',
  '-g0',
  '-fstack-protector-strong',
  '-Wl,--build-id=none',
  '-Wall',
  '-Wextra',
  '-Wshadow',
  '-Wconversion',
  '-Wno-sign-conversion',
  '-Werror',
  '-ffile-prefix-map=.=native',
]

const cache = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'gantry')
const check = process.argv.includes('--check')
const aside = mkdtempSync(join(tmpdir(), 'gantry-launcher-'))
try {
  const zig = findCompiler()
  const built = new Map<string, Buffer>()
  for (const [arch, target] of Object.entries(targets)) built.set(`gantry-sandbox-linux-${arch}`, compile(zig, target))
  built.set('manifest.json', manifestOf(built))
  if (check) compare(built)
  else write(built)
} finally {
  rmSync(aside, { recursive: true, force: true })
}

/** The compiler in the cache, installed from PyPI if missing. */
function findCompiler(): string {
  const folder = join(cache, compiler.replace('lang ', '-'))
  const zig = join(folder, 'ziglang/zig')
  if (existsSync(zig)) return zig
  const requirement = join(aside, 'requirement.txt')
  const [name, version] = compiler.split(' ')
  writeFileSync(requirement, `${name}==${version} ${wheels.map((hash) => `--hash=sha256:${hash}`).join(' ')}\n`)
  mkdirSync(cache, { recursive: true, mode: 0o700 })
  const draft = mkdtempSync(`${folder}-`)
  run('python3', ['-m', 'pip', 'install', '-q', '--no-deps', '--require-hashes', '--target', draft, '-r', requirement])
  renameSync(draft, folder)
  return zig
}

function compile(zig: string, target: string): Buffer {
  const sources = readdirSync(join(native, 'src')).filter((name) => name.endsWith('.c'))
  const output = join(aside, target)
  run(zig, ['cc', '-target', target, ...flags, '-o', output, ...sources.sort()], join(native, 'src'))
  return readFileSync(output)
}

function run(program: string, args: readonly string[], cwd: string = root): void {
  const caches = { ZIG_GLOBAL_CACHE_DIR: join(cache, 'zig-cache'), ZIG_LOCAL_CACHE_DIR: join(cache, 'zig-cache') }
  const { status, error } = spawnSync(program, args, { cwd, stdio: 'inherit', env: { ...process.env, ...caches } })
  if (status !== 0) throw new Error(`${program} failed: ${error?.message ?? `it ended with ${status}`}`)
}

/** The manifest of binaries, sources and compiler: the launcher verifies the binaries by it, a test the sources. */
function manifestOf(built: ReadonlyMap<string, Buffer>): Buffer {
  const names = readdirSync(join(native, 'src')).sort()
  const sources = names.map((name) => [name, sha256(readFileSync(join(native, 'src', name)))])
  const binaries = [...built].map(([name, bytes]) => [name, sha256(bytes)])
  const manifest = { compiler, flags, sources: Object.fromEntries(sources), binaries: Object.fromEntries(binaries) }
  return Buffer.from(`${JSON.stringify(manifest, undefined, 2)}\n`)
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}

function write(built: ReadonlyMap<string, Buffer>): void {
  mkdirSync(join(native, 'bin'), { recursive: true })
  for (const [name, bytes] of built) {
    const path = join(native, 'bin', name)
    /* Beside and renamed, because a launcher that runs now keeps its file. */
    writeFileSync(`${path}.new`, bytes)
    chmodSync(`${path}.new`, name === 'manifest.json' ? 0o644 : 0o755)
    renameSync(`${path}.new`, path)
    console.log(`${name}: ${bytes.length} bytes`)
  }
}

function compare(built: ReadonlyMap<string, Buffer>): void {
  const different = [...built].filter(([name, bytes]) => {
    const path = join(native, 'bin', name)
    return !existsSync(path) || !readFileSync(path).equals(bytes)
  })
  for (const [name] of different)
    console.error(`${name} differs from the build of its sources; run scripts/build-launcher.ts`)
  if (different.length === 0) console.log('The committed launcher matches its sources.')
  else process.exitCode = 1
}
