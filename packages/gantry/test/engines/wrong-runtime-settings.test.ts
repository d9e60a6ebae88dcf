import assert from 'node:assert/strict'
import { chmodSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { api } from '../../../sandbox-containers/test/engines/docker-api.fixture.ts'
import { dockerSocket } from '../../../sandbox-containers/test/engines/engines.fixture.ts'
import { folderWith } from '../../../service/src/config/config.fixture.ts'
import { runCommandLine } from '../../src/cli/cli.ts'
import { keptIo } from '../../src/cli/io.fixture.ts'

interface Settings {
  readonly docker?: object
  readonly environment?: { readonly [name: string]: string }
}

/** A command with these settings of `docker`. */
async function gantry({ docker = {}, environment = {} }: Settings, ...line: string[]) {
  using folder = folderWith({
    'gantry.config.json': JSON.stringify({ runtimes: { docker: { socket: dockerSocket(), ...docker } } }),
  })
  const io = keptIo({ folder: folder.path, environment })
  const code = await runCommandLine(line, io)
  return { code, ...io.printed }
}

/** What a call of code:run in `docker` and `gantry doctor` say of these settings: the same reason and remedy. */
async function refusalOf(settings: Settings, language = 'python'): Promise<{ reason: string; remedy: string }> {
  const args = JSON.stringify({ language, code: '', runtime: 'docker' })
  const { code, out } = await gantry(settings, 'run', 'code:run', args, '--json')
  assert.equal(code, 5, out)
  const { status, error } = JSON.parse(out)
  assert.deepEqual([status, error.code], ['failed', 'RUNTIME_UNAVAILABLE'])
  const { reason, remedy } = error.details.runtimes.find((one: { kind: string }) => one.kind === 'docker')
  assert.ok(error.message.includes(`${reason} ${remedy}`), error.message)
  return { reason, remedy }
}

/** The same of the doctor, in JSON and as text. */
async function diagnosisOf(settings: Settings): Promise<{ reason: string; remedy: string }> {
  const { runtimes } = JSON.parse((await gantry(settings, 'doctor', '--json')).out)
  const found = runtimes.find((one: { kind: string }) => one.kind === 'docker')
  assert.equal(found.available, false)
  return { reason: found.reason, remedy: found.remedy }
}

async function isRefused(settings: Settings, reason: RegExp, remedy: RegExp): Promise<void> {
  const refused = await refusalOf(settings)
  assert.match(refused.reason, reason)
  assert.match(refused.remedy, remedy)
  assert.deepEqual(await diagnosisOf(settings), refused)
}

test('an image that the engine does not have is named, with the command that makes one', async () => {
  const settings = { docker: { image: 'gantry/sandbox:standard-000000000000' } }
  await isRefused(settings, /has no image "gantry\/sandbox:standard-0{12}"\.$/, /^Run `gantry runtime build`\.$/)
  const { code, out } = await gantry(settings, 'doctor')
  assert.equal(code, 0)
  assert.match(out, /✗ docker +container +not available: .*has no image.*\n +Run `gantry runtime build`\./)
})

test('a socket that is absent, a file, or of another service is named, with what to do', async () => {
  using folder = folderWith({ 'plain.sock': 'not a socket' })
  await isRefused(
    { docker: { socket: join(folder.path, 'none.sock') } },
    /none\.sock is unreachable \(ENOENT\)\.$/,
    /^Start the engine/,
  )
  await isRefused(
    { docker: { socket: join(folder.path, 'plain.sock') } },
    /plain\.sock is unreachable/,
    /^Start the engine/,
  )
  const others = [
    [404, '{"message":"page not found"}', /refused the request: page not found\.$/],
    [200, 'hello', /refused the request: The answer of the engine is not JSON\.$/],
    [200, '{}', /is no Docker engine\.$/],
  ] as const
  for (const [index, [status, body, reason]] of others.entries()) {
    const server = createServer((_, answer) => answer.writeHead(status).end(body))
    const path = join(folder.path, `other-${index}.sock`)
    await new Promise<void>((resolve) => server.listen(path, resolve))
    try {
      await isRefused({ docker: { socket: path } }, reason, /^(?:Look at the log of the engine|Name the socket)/)
    } finally {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    }
  }
})

test('a folder of sandboxes that cannot be made, or that others can write, is named with the variable to set', async () => {
  using folder = folderWith({ file: 'in the way' })
  const remedy = /^Set SANDBOX_ROOT to a folder that only you can write and every user can traverse\.$/
  const inFile = { environment: { SANDBOX_ROOT: join(folder.path, 'file/root') } }
  await isRefused(inFile, /The folder for sandboxes, .*file\/root, cannot be made\.$/, remedy)
  using open = folderWith({})
  chmodSync(open.path, 0o777)
  await isRefused({ environment: { SANDBOX_ROOT: open.path } }, /can be written by others\.$/, remedy)
})

test('an image without Python refuses Python with the reason, and runs what it has', async () => {
  const socket = dockerSocket()
  const body = { Image: 'gantry/sandbox:standard', Cmd: ['/bin/true'] }
  const { Id } = (await api(socket, 'POST', '/containers/create', body)) as { Id: string }
  const changes = encodeURIComponent('LABEL dev.gantry.programs="/usr/bin/bash" dev.gantry.node="false"')
  await api(socket, 'POST', `/commit?container=${Id}&repo=gantry-test/cli-bash&changes=${changes}`, {})
  await api(socket, 'DELETE', `/containers/${Id}`)
  const settings = { docker: { image: 'gantry-test/cli-bash' } }
  try {
    const { reason, remedy } = await refusalOf(settings)
    assert.match(reason, /There is no python3 .* which python needs\.$/)
    assert.match(
      remedy,
      /^Run `gantry runtime build standard`, and name gantry\/sandbox:standard in `runtimes\.docker\.image`/,
    )
    const other = await refusalOf(settings, 'javascript')
    assert.deepEqual(other, { reason: 'The image has no Node.', remedy })
    assert.match((await refusalOf(settings, 'c')).remedy, /^Run `gantry runtime build full`/)
    assert.match((await refusalOf(settings, 'ruby')).remedy, /^Name an image that has it in `runtimes\.docker\.image`/)
    const args = JSON.stringify({ language: 'bash', code: 'echo here', runtime: 'docker' })
    const { code, out } = await gantry(settings, 'run', 'code:run', args, '--json')
    assert.equal(code, 0, out)
    assert.equal(JSON.parse(out).output.stdout, 'here\n')
  } finally {
    await api(socket, 'DELETE', '/images/gantry-test%2Fcli-bash')
  }
})

test('settings that cannot be are refused before an engine is reached, with their paths', async () => {
  const wrong = { docker: { image: '', socket: 'relative.sock', processors: 0, imge: 'x' } }
  const { code, err } = await gantry(wrong, 'doctor')
  assert.equal(code, 2)
  for (const path of ['image', 'socket', 'processors', 'imge'])
    assert.ok(err.includes(`/runtimes/docker/${path} `), err)
})
