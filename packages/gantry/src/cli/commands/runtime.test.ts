import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { folderWith } from '../../../../service/src/config/config.fixture.ts'
import { runCommandLine } from '../cli.ts'
import { keptIo } from '../io.fixture.ts'
import { barText } from './runtime.ts'

async function gantry(folder: string, ...line: string[]): Promise<{ code: number; out: string; err: string }> {
  const io = keptIo({ folder })
  const code = await runCommandLine(line, io)
  return { code, ...io.printed }
}

test('without an engine every runtime command ends with 5, names the socket, and says what to do', async () => {
  using folder = folderWith({})
  for (const command of ['build', 'images', 'prune']) {
    const { code, out, err } = await gantry(folder.path, 'runtime', command, '--socket', 'nothing.sock')
    assert.deepEqual([code, out], [5, ''], command)
    const at = join(folder.path, 'nothing.sock')
    assert.match(err, /^RUNTIME_UNAVAILABLE: Docker at unix:\/\//, command)
    assert.ok(err.includes(`unix://${at} is unreachable (ENOENT). Start the engine, or name its socket`), err)
  }
  const { code, out } = await gantry(folder.path, 'runtime', 'images', '--socket', 'nothing.sock', '--json')
  assert.equal(code, 5)
  assert.equal(JSON.parse(out).error.code, 'RUNTIME_UNAVAILABLE')
})

test('the socket of the configuration is used when the command line names none', async () => {
  const config = (runtimes: object) => ({ 'gantry.config.json': JSON.stringify({ runtimes }) })
  for (const kind of ['docker', 'gvisor']) {
    using folder = folderWith(config({ [kind]: { socket: '/nowhere/of-the-file.sock' } }))
    const { code, err } = await gantry(folder.path, 'runtime', 'images')
    assert.equal(code, 5)
    assert.match(err, /unix:\/\/\/nowhere\/of-the-file\.sock/)
  }
})

test('containerd is the engine when the command line or the configuration names it', async () => {
  const config = (runtimes: object) => ({ 'gantry.config.json': JSON.stringify({ runtimes }) })
  using empty = folderWith({})
  const socket = join(empty.path, 'nothing.sock')
  for (const command of ['build', 'images', 'prune']) {
    const line = ['runtime', command, '--engine', 'containerd', '--socket', 'nothing.sock']
    const { code, out, err } = await gantry(empty.path, ...line)
    assert.deepEqual([code, out], [5, ''], command)
    assert.ok(err.startsWith(`RUNTIME_UNAVAILABLE: containerd at unix://${socket} is unreachable (ENOENT).`), err)
  }
  const own = { socket: '/nowhere/of-containerd.sock' }
  for (const runtimes of [
    { containerd: own },
    { containerd: own, gvisor: {} },
    { kata: { ...own, engine: 'containerd' } },
  ]) {
    using folder = folderWith(config(runtimes))
    const { err } = await gantry(folder.path, 'runtime', 'images')
    assert.match(err, /containerd at unix:\/\/\/nowhere\/of-containerd\.sock/, JSON.stringify(runtimes))
  }
  using both = folderWith(config({ docker: { socket: '/nowhere/of-docker.sock' }, containerd: own }))
  assert.match((await gantry(both.path, 'runtime', 'images')).err, /Docker at unix:\/\/\/nowhere\/of-docker\.sock/)
})

test('an unknown engine, and settings of another engine, end with 2 and what to change', async () => {
  using folder = folderWith({})
  const unknown = await gantry(folder.path, 'runtime', 'images', '--engine', 'containrd')
  assert.equal(unknown.code, 2)
  assert.match(
    unknown.err,
    /containrd is not an engine; there are docker, containerd, qemu\. Did you mean containerd\?/,
  )
  const wrong = [
    [{ gvisor: { namespace: 'n' } }, /\/runtimes\/gvisor\/namespace needs "engine": "containerd"/],
    [
      { gvisor: { engine: 'containerd', host: { name: 'h', port: 1 } } },
      /\/runtimes\/gvisor\/host is supported by Docker only/,
    ],
    [{ containerd: { namespace: '../n' } }, /\/runtimes\/containerd\/namespace must be letters and digits/],
    [{ containerd: { host: {} } }, /\/runtimes\/containerd\/host/],
  ] as const
  for (const [runtimes, message] of wrong) {
    using configured = folderWith({ 'gantry.config.json': JSON.stringify({ runtimes }) })
    const { code, err } = await gantry(configured.path, 'runtime', 'images')
    assert.equal(code, 2, err)
    assert.match(err, message)
  }
})

test('an unknown flavour ends with 2 and the nearest name; a wrong configuration with 2 and its path', async () => {
  using folder = folderWith({})
  const unknown = await gantry(folder.path, 'runtime', 'build', 'pyton')
  assert.equal(unknown.code, 2)
  assert.match(unknown.err, /there are python, node, standard, full\. Did you mean python\?/)
  using wrong = folderWith({ 'gantry.config.json': '{"runtimes":{"docker":{"socket":7}}}' })
  const refused = await gantry(wrong.path, 'runtime', 'images')
  assert.equal(refused.code, 2)
  assert.match(refused.err, /\/runtimes\/docker\/socket must be an absolute path/)
})

test('a server that is no Docker engine is refused with what it said', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-runtime-'))
  const socket = join(folder, 's')
  const server = createServer((_, answer) => answer.writeHead(404).end('{"message":"page not found"}'))
  await new Promise<void>((resolve) => server.listen(socket, resolve))
  try {
    const { code, err } = await gantry(folder, 'runtime', 'images', '--socket', socket)
    assert.equal(code, 5)
    assert.match(err, /^RUNTIME_UNAVAILABLE: Docker at unix:\/\/.* refused the request: page not found\./)
  } finally {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    rmSync(folder, { recursive: true })
  }
})

test('a step of a build that counts is shown with a bar, and any other as it is', () => {
  assert.equal(barText('unpacking 1 of 50'), `[#${'.'.repeat(24)}] unpacking 1 of 50`)
  assert.equal(barText('unpacking 50 of 50'), `[${'#'.repeat(25)}] unpacking 50 of 50`)
  assert.equal(barText('resolving packages'), 'resolving packages')
})
