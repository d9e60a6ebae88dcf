import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { encryptedSecrets } from '@gantry/core'
import { runCommandLine } from '../cli.ts'
import { keptIo } from '../io.fixture.ts'

const value = 'tok-82f1c0-never-shown'

/** A folder of its own, and the command in it; a value is what stdin holds. */
function setUp(environment: NodeJS.ProcessEnv = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-secrets-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  const gantry = async (line: string, input = '') => {
    const io = keptIo({ folder, environment, askSecret: async () => input })
    const code = await runCommandLine(['secrets', ...line.split(' ')], io)
    assert.ok(!JSON.stringify(io.printed).includes('82f1c0'), 'the value was printed')
    return { code, ...io.printed }
  }
  return { folder, gantry }
}

test('the secrets commands create, fill, list and rekey a store, and remove from it', async () => {
  const { folder, gantry } = setUp()
  const made = await gantry('init --key-file key')
  assert.equal(made.code, 0, made.err)
  assert.equal(statSync(join(folder, 'key')).mode & 0o777, 0o600)
  assert.equal((await gantry('set API_TOKEN --key-file key', `${value}\n`)).out, 'Set API_TOKEN.\n')
  await gantry('set OTHER --key-file key', 'another value')
  assert.equal((await gantry('list --key-file key')).out, 'API_TOKEN\nOTHER\n')
  assert.deepEqual(JSON.parse((await gantry('list --key-file key --json')).out), { names: ['API_TOKEN', 'OTHER'] })

  assert.equal((await gantry('rekey --key-file key --new-key-file new.key')).code, 0)
  assert.equal((await gantry('list --key-file key')).code, 5)
  assert.equal((await gantry('remove OTHER --key-file new.key')).out, 'Removed OTHER.\n')
  const source = encryptedSecrets({ file: join(folder, '.gantry/secrets'), key: { file: join(folder, 'new.key') } })
  const request = { tool: '', identity: { principal: '', tenant: '', permissions: [] }, signal: AbortSignal.abort() }
  assert.equal(await source.get('API_TOKEN', request), value)
  assert.ok(!readFileSync(join(folder, '.gantry/secrets'), 'utf8').includes(value))
  assert.deepEqual(readdirSync(join(folder, '.gantry')), ['secrets'])
})

test('the first `secrets set` creates the store when GANTRY_SECRETS_KEY is set', async () => {
  const { folder, gantry } = setUp({ GANTRY_SECRETS_KEY: 'ab'.repeat(32), GANTRY_DATA: 'data' })
  assert.deepEqual(JSON.parse((await gantry('set API_TOKEN --json', value)).out), { name: 'API_TOKEN' })
  assert.ok(existsSync(join(folder, 'data/secrets')))
  await gantry('set API_TOKEN --store other', value)
  assert.equal((await gantry('list --store other')).out, 'API_TOKEN\n')
})

test('a secret value on the command line is refused and not echoed', async () => {
  const { folder, gantry } = setUp({ GANTRY_SECRETS_KEY: 'ab'.repeat(32) })
  const { code, err } = await gantry(`set API_TOKEN ${value}`)
  assert.equal(code, 2)
  assert.match(err, /the value is typed or piped in, never written here/)
  assert.ok(!existsSync(join(folder, '.gantry')))
})

test('missing keys, stores and options are refused with a remedy', async () => {
  const { folder, gantry } = setUp()
  const table: [string, RegExp][] = [
    ['list', /in GANTRY_SECRETS_KEY, or in a file named by --key-file/],
    ['list --key-file gone', /There is no store of secrets .*; gantry secrets init makes one/],
    ['init', /needs --key-file FILE/],
    ['rekey --key-file key', /needs --new-key-file FILE/],
  ]
  for (const [line, message] of table) {
    const { code, err } = await gantry(line)
    assert.equal(code, 2, line)
    assert.match(err, message)
  }
  await gantry('init --key-file key')
  assert.match((await gantry('init --key-file key2')).err, /There is a store .* already/)
  assert.match((await gantry('list --key-file gone')).err, /The key file .*gone cannot be read/)
  await gantry('set API_TOKEN --key-file key', value)
  assert.match((await gantry('remove API_TOKEM --key-file key')).err, /Did you mean API_TOKEN\?/)
  assert.match((await gantry('set SHORT --key-file key', 'abc\n')).err, /at least 4 characters/)
  chmodSync(join(folder, 'key'), 0o644)
  assert.match((await gantry('list --key-file key')).err, /chmod 600/)
})
