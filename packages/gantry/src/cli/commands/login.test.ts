import assert from 'node:assert/strict'
import { chmodSync, readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { folderWith } from '../../../../service/src/config/config.fixture.ts'
import { runCommandLine } from '../cli.ts'
import { keptIo } from '../io.fixture.ts'
import type { Io } from '../io.ts'
import { startServiceRig } from '../service.fixture.ts'

const run = ['run', 'demo:add', '{"a":5,"b":3}', '--verbose']

test('login stores an accepted key for the commands that follow, and logout removes it', async (t) => {
  const { server, key, service } = await startServiceRig(t)
  using folder = folderWith({ 'here/x': '', 'project/gantry.config.json': '{"demo":true}' })
  const environment = { HOME: folder.path }
  const gantry = async (line: readonly string[], changes: Partial<Io> = {}) => {
    const io = keptIo({ folder: join(folder.path, 'here'), environment, ...changes })
    return { code: await runCommandLine(line, io), ...io.printed }
  }
  const wrong = await gantry(['login', server.url, '--key-stdin'], { readInput: async () => 'gk_wrong\n' })
  assert.equal(wrong.code, 3, wrong.err)
  assert.match((await gantry(['login'])).out, /^No services/)

  let asked = ''
  const askSecret: Io['askSecret'] = async (prompt) => {
    asked = prompt
    return key
  }
  const made = await gantry(['login', `${server.url}/`], { askSecret })
  assert.deepEqual([made.code, asked], [0, `Key for ${server.url}: `], made.err)
  assert.match(made.out, /principal: owner\ntenant: acme\nroles: none\npermissions: \*\ntools: all\n/)
  assert.doesNotMatch(made.out + made.err, new RegExp(key))
  const file = join(folder.path, '.config/gantry/logins.json')
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.match(readFileSync(file, 'utf8'), new RegExp(key))

  await t.test('a command without a service of its own uses the default', async () => {
    const ran = await gantry(run)
    assert.deepEqual([ran.code, service.submitted.length], [0, 1], ran.err)
    assert.match(ran.err, new RegExp(`Asking the service at ${server.url}`))
    const listed = await gantry(['calls'])
    assert.equal(listed.code, 0, listed.err)
  })
  await t.test('a command that can run here with a configuration does, and --local does everywhere', async () => {
    const project = { folder: join(folder.path, 'project') }
    assert.equal((await gantry(run, project)).code, 0)
    assert.equal((await gantry([...run, '--local'])).code, 0)
    assert.equal(service.submitted.length, 1)
    assert.equal((await gantry(['calls'], project)).code, 0)
  })
  await t.test('GANTRY_URL takes the key that is stored for it, and no other gets it', async () => {
    const elsewhere = { ...environment, GANTRY_URL: server.url }
    assert.equal((await gantry(['calls'], { environment: elsewhere })).code, 0)
    const other = { ...environment, GANTRY_URL: server.url.replace('127.0.0.1', 'localhost') }
    assert.equal((await gantry(['calls'], { environment: other })).code, 3)
  })
  await t.test('a file that others can read is refused', async () => {
    chmodSync(file, 0o644)
    const refused = await gantry(['calls'])
    assert.match(refused.err, /logins\.json can be read or written by others; chmod 600 it/)
    chmodSync(file, 0o600)
  })
  const left = await gantry(['logout'])
  assert.deepEqual(
    [left.code, (await gantry(['login'])).out],
    [0, 'No services; gantry login <url> stores the key of one.\n'],
  )
  assert.equal((await gantry(['logout'])).code, 2)
})

test('login refuses URLs that would show the key to others, before it asks for the key', async (t) => {
  const seen: (string | undefined)[] = []
  const target = createServer((request, response) => {
    seen.push(request.headers.authorization)
    response.end('{"principal":"x"}')
  })
  const redirect = createServer((request, response) => {
    if (request.url === '/healthz') return void response.end('{"alive":true}')
    response.writeHead(307, { location: `http://localhost:${portOf(target)}/` }).end()
  })
  const portOf = (server: ReturnType<typeof createServer>): number => (server.address() as AddressInfo).port
  for (const server of [target, redirect]) {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.after(() => server.close())
  }
  using folder = folderWith({})
  let asked = 0
  const login = async (...line: readonly string[]) => {
    const askSecret: Io['askSecret'] = async () => {
      asked += 1
      return 'gk_key'
    }
    const io = keptIo({ folder: folder.path, environment: { HOME: folder.path }, askSecret })
    return { code: await runCommandLine(['login', ...line], io), ...io.printed }
  }
  const plain = await login('http://gantry.example.com')
  assert.deepEqual([plain.code, asked], [2, 0])
  assert.match(plain.err, /plain http to another machine.*--plain-http/)
  assert.equal((await login('https://user:pass@gantry.example.com')).code, 2)
  const word = await login('https://gantry.example.com', 'gk_secret')
  assert.deepEqual([word.code, /gk_secret/.test(word.err)], [2, false])

  const moved = await login(`http://127.0.0.1:${portOf(redirect)}`)
  assert.deepEqual([moved.code, asked, seen], [5, 1, []], moved.err)
})
