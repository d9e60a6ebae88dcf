import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { appendFileSync, chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { ToolError } from '@gantry/contract'
import type { RunAnswer } from '@gantry/core/internal/runtimes/runtimes'
import { createSandboxes } from '../runtimes/create-sandboxes.ts'
import type { SandboxOptions, SandboxRuntimes } from '../runtimes/options.ts'
import { type BuildOptions, type BuiltPackages, buildPackages, pythonOfSandboxes } from './build-packages.ts'
import { pruneLayers, removeTree } from './layer-store.ts'
import { prunePackages } from './open-layers.ts'
import type { PythonTarget } from './package-clients.ts'
import { type PackageSource, readPackages } from './package-lists.ts'
import { packageTest, useWheels, writeSource, writeWheel } from './wheels.fixture.ts'

const folder = mkdtempSync(join(tmpdir(), 'gantry-packages-'))
const wheels = join(folder, 'wheels')
const signal = AbortSignal.timeout(120_000)
writeWheel(wheels, 'gantry_one', '1.0', { 'gantry_one/__init__.py': 'import gantry_two\nnumber = gantry_two.number\n' })
writeWheel(wheels, 'gantry_two', '2.0', { 'gantry_two.py': 'number = 42\n', 'json.py': 'raise ImportError("mine")\n' })
useWheels(wheels)

const plain = createSandboxes({ pool: false })
let asked: Promise<PythonTarget> | undefined
after(async () => {
  await plain.close()
  await prunePackages({})
  await removeTree(folder)
})

/** A folder of its own for each test, and the options of its list. */
function setting(name: string, packages: readonly string[] = ['gantry_one', 'gantry_two==2.0']): SandboxOptions {
  const lock = join(folder, `${name}.lock`)
  return { pool: false, python: { packages, lock }, packagesFolder: join(folder, name) }
}

/** The layer that most tests share, built once. */
let shared: Promise<BuiltPackages> | undefined
function buildShared(): Promise<BuiltPackages> {
  shared ??= build(setting('shared'))
  return shared
}

/** A setting with a copy of the shared layer, for tests that change it. */
async function copied(name: string): Promise<SandboxOptions> {
  await buildShared()
  for (const each of ['shared', 'shared.lock']) {
    execFileSync('cp', ['-a', join(folder, each), join(folder, each.replace('shared', name))])
  }
  return setting(name)
}

async function sourceOf(options: SandboxOptions): Promise<PackageSource> {
  const source = await readPackages(options, 'python')
  assert.ok(source)
  return source
}

async function build(options: SandboxOptions, changes: Partial<BuildOptions> = {}): Promise<BuiltPackages> {
  asked ??= pythonOfSandboxes(plain, signal)
  const target = asked
  const usual: BuildOptions = { update: false, signal, onProgress: () => undefined, pythonTarget: () => target }
  return buildPackages(await sourceOf(options), { ...usual, ...changes })
}

async function refusal(work: Promise<unknown>): Promise<ToolError> {
  const error = await work.then(
    () => assert.fail('it was not refused'),
    (thrown: unknown) => thrown,
  )
  assert.ok(ToolError.is(error), String(error))
  return error
}

const code = 'import json, gantry_one\nreturn [gantry_one.number, gantry_one.__file__, json.__file__]'
const program = { kind: 'code', language: 'python', code } as const

function run(boxes: SandboxRuntimes, more: object = {}): Promise<RunAnswer> {
  return boxes.run({ program, ...more }, signal)
}

/** Runs a test with sandboxes of these options, and closes them. */
async function within<T>(options: SandboxOptions, work: (boxes: SandboxRuntimes) => Promise<T>): Promise<T> {
  const boxes = createSandboxes(options)
  return work(boxes).finally(() => boxes.close())
}

packageTest('programs find built packages behind the library of Python, and the result names the layer', async () => {
  const options = setting('shared')
  const made = await buildShared()
  assert.deepEqual([made.built, made.locked, made.layer.packages], [true, true, 2])
  const lock = readFileSync(join(folder, 'shared.lock'), 'utf8')
  assert.match(lock, /^gantry_one==1\.0 --hash=sha256:[0-9a-f]{64}\ngantry_two==2\.0 --hash=sha256:[0-9a-f]{64}$/m)
  await within(options, async (boxes) => {
    const { outcome, runtime } = await run(boxes)
    assert.deepEqual(runtime.packages, { python: `sha256:${made.layer.digest}` })
    const [number, file = '', json = ''] = Array.isArray(outcome.value) ? outcome.value.map(String) : []
    assert.equal(number, '42')
    assert.match(file, /^\/gantry\/python\/lib\/python3\.\d+\/site-packages\/gantry_one\//)
    assert.match(json, /^\/usr\/lib\//, 'a package replaced a module of the library')
    const argv = ['python3', '-c', 'import gantry_one; print(gantry_one.number)'] as const
    const command = await boxes.run({ program: { kind: 'argv', argv } }, signal)
    assert.equal(new TextDecoder().decode(command.outcome.stdout.bytes), '42\n')
    const write = "open('/gantry/python/x', 'w')"
    const written = await boxes.run({ program: { ...program, code: write } }, signal)
    assert.match(new TextDecoder().decode(written.outcome.stderr.bytes), /Read-only file system|Permission denied/)
  })
  const again = await build(options)
  assert.deepEqual([again.built, again.layer.digest], [false, made.layer.digest])
})

packageTest('programs are refused until the packages are built, and run then without a new start', async () => {
  const options = setting('late')
  await within(options, async (boxes) => {
    const error = await refusal(run(boxes))
    assert.equal(error.code, 'RUNTIME_UNAVAILABLE')
    assert.match(error.message, /runtimes\.python\.packages are not built.*Run `gantry runtime build packages`/)
    const other = await boxes.run({ program: { kind: 'code', language: 'perl', code: 'print 1' } }, signal)
    assert.equal(other.runtime.packages, undefined)
    await copied('late')
    assert.deepEqual((await run(boxes)).outcome.exit, { code: 0 })
  })
})

packageTest('a folder of packages that cannot be read refuses the programs that need it, with the reason', async () => {
  await buildShared()
  const options = { ...setting('shared'), packagesFolder: join(folder, 'shared.lock') }
  const error = await refusal(within(options, (boxes) => run(boxes)))
  assert.match(error.message, /runtimes\.python\.packages cannot be read \(ENOTDIR\)/)
})

packageTest('warm sandboxes and sessions have the packages', async () => {
  const options = { ...setting('shared'), pool: { min: 1, max: 1 } }
  await buildShared()
  await within(options, async (boxes) => {
    for (let round = 0; round < 3; round++) assert.deepEqual((await run(boxes)).outcome.exit, { code: 0 })
    const opened = await boxes.open('python', {}, signal)
    const { value } = await opened.sandbox.run(
      { program: { ...program, code: 'import gantry_one; gantry_one.number' } },
      signal,
    )
    assert.equal(value, 42)
    await opened.sandbox.dispose()
  })
})

packageTest('a runtime without packages is refused by name, and a profile without packages is not', async () => {
  const options = { ...setting('shared'), profiles: { open: { floor: 'none', unsafeHost: true } } } as const
  await buildShared()
  await within(options, async (boxes) => {
    const error = await refusal(run(boxes, { runtime: 'unsafe_host', profile: 'open' }))
    assert.match(error.message, /unsafe_host: It cannot have the packages of runtimes\.python\.packages/)
  })
  const without = { ...options, profiles: { open: { floor: 'none', unsafeHost: true, packages: false } } } as const
  await within(without, async (boxes) => {
    const { outcome, runtime } = await run(boxes, { runtime: 'process', profile: 'open' })
    assert.deepEqual([runtime.packages, outcome.exit], [undefined, { code: 1 }])
    assert.match(new TextDecoder().decode(outcome.stderr.bytes), /No module named 'gantry_one'/)
  })
})

packageTest('a changed layer is refused, and the next build makes it anew', async () => {
  const options = await copied('changed')
  const [name = ''] = readdirSync(join(folder, 'changed')).filter((each) => /^[0-9a-f]{64}$/.test(each))
  const layer = { folder: join(folder, 'changed', name) }
  const [site = ''] = readdirSync(join(layer.folder, 'lib'))
  const file = join(layer.folder, 'lib', site, 'site-packages', 'gantry_two.py')
  chmodSync(file, 0o644)
  appendFileSync(file, 'number = 43\n')
  chmodSync(file, 0o444)
  const error = await refusal(within(options, (boxes) => run(boxes)))
  assert.match(error.message, /were changed after they were built/)
  assert.equal((await build(options)).built, true)
  await within(options, async (boxes) => assert.deepEqual((await run(boxes)).outcome.exit, { code: 0 }))
  chmodSync(join(folder, 'changed'), 0o777)
  const open = await refusal(within(options, (boxes) => run(boxes)))
  assert.match(open.message, /The folder of packages, .*, can be written by others\. Name a folder/)
})

packageTest(
  'a package with another hash than the locked one is refused, and so is a lock with anything else in it',
  async () => {
    const options = await copied('hashes')
    const lock = join(folder, 'hashes.lock')
    const text = readFileSync(lock, 'utf8')
    writeFileSync(lock, text.replaceAll(/--hash=sha256:.*$/gm, `--hash=sha256:${'0'.repeat(64)}`))
    const error = await refusal(build(options))
    assert.equal(error.code, 'RUNTIME_UNAVAILABLE')
    assert.match(error.message, /does not have the hash of the lock file/)
    for (const line of ['--index-url http://127.0.0.1/', 'gantry_one==1.0', '-e .']) {
      writeFileSync(lock, `${text}${line}\n`)
      assert.match((await refusal(build(options))).message, /a line that is not a package with its hash/)
    }
    writeFileSync(lock, text)
    const other = await refusal(build({ ...options, python: { packages: ['gantry_two'], lock } }))
    assert.match(other.message, /is the lock of another list .*--update/)
  },
)

packageTest('a package without a wheel is refused, and its code does not run', async () => {
  const mark = join(folder, 'ran')
  writeSource(wheels, 'gantry_source', `open(${JSON.stringify(mark)}, 'w')`)
  const error = await refusal(build(setting('source', ['gantry_source'])))
  assert.match(error.message, /no wheel of gantry_source .* Source packages are never built/)
  assert.ok(!existsSync(mark) && !existsSync(join(folder, 'source.lock')))
  assert.deepEqual(readdirSync(join(folder, 'source')), [])
})

packageTest('two builds at once make one layer, and a cancelled or killed one leaves nothing', async () => {
  const options = await copied('both')
  await pruneLayers(join(folder, 'both'), [])
  const [one, other] = await Promise.all([build(options), build(options)])
  assert.equal(one.layer.digest, other.layer.digest)
  assert.deepEqual(await build(options).then(({ built }) => built), false)
  const store = join(folder, 'both')
  const before = readdirSync(store).toSorted()
  const stop = new AbortController()
  await assert.rejects(
    build(options, { update: true, signal: stop.signal, onProgress: () => stop.abort(new Error('stopped')) }),
    /stopped/,
  )
  assert.deepEqual(readdirSync(store).toSorted(), before)
  const path = new URL('./layer-store.ts', import.meta.url).href
  const begin = `const { beginBuild } = await import(${JSON.stringify(path)}); console.log(await beginBuild(${JSON.stringify(store)}))`
  const left = execFileSync(process.execPath, ['--input-type=module', '-e', begin], { encoding: 'utf8' }).trim()
  assert.ok(existsSync(left))
  await pruneLayers(store, [])
  assert.deepEqual(readdirSync(store), [])
})
