import assert from 'node:assert/strict'
import { chmodSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { addressFile, writeAddress } from '@gantry/service/internal/config/service-files'
import { startServiceRig } from './service.fixture.ts'

const line = ['run', 'demo:add', '{"a":5,"b":3}', '--verbose']

test('the CLI calls the service that runs on its data folder, and --local bypasses it', async (t) => {
  const { gantry, service, server } = await startServiceRig(t)
  const asked = await gantry(line)
  assert.deepEqual([asked.code, service.submitted.length], [0, 1])
  assert.equal(asked.err, `Asking the service at ${server.url}.\n`)
  await gantry([...line, '--local'])
  assert.equal(service.submitted.length, 1)
})

test('--data and GANTRY_DATA name the folder of the service', async (t) => {
  const { gantry, service, folder } = await startServiceRig(t)
  const elsewhere = join(folder, '..')
  await gantry([...line, '--data', join(folder, '.gantry')], { folder: elsewhere })
  await gantry(line, { folder: elsewhere, environment: { GANTRY_DATA: join(folder, '.gantry') } })
  assert.equal(service.submitted.length, 2)
})

test('the CLI ignores a service that runs with another configuration file', async (t) => {
  const { gantry, service, folder } = await startServiceRig(t)
  writeFileSync(join(folder, 'gantry.config.json'), '{"demo":true}')
  const here = await gantry(line)
  assert.equal(here.code, 0)
  assert.match(
    here.err,
    /runs without a configuration; this command runs with .*gantry\.config\.json\. Running it in this/,
  )
  assert.equal(service.submitted.length, 0)
  const { url } = { url: 'http://127.0.0.1:1' }
  await writeAddress(join(folder, '.gantry'), { url, pid: process.pid, config: join(folder, 'gantry.config.json') })
  assert.match((await gantry(line)).err, /does not answer/)
})

test('the CLI runs the command in its own process when the recorded service does not respond or its process has ended', async (t) => {
  const { gantry, server, service, folder } = await startServiceRig(t)
  const data = join(folder, '.gantry')
  await writeAddress(data, { url: server.url, pid: 2 ** 22 + 1, config: null })
  const gone = await gantry(line)
  assert.match(gone.err, /does not answer\. Running it in this process\.\n$/)
  assert.deepEqual([gone.code, service.submitted.length], [0, 0])
  assert.equal((await gantry(line.slice(0, -1))).err, '')
  const foreign = createServer((_request, response) => response.end('{"alive":"maybe"}'))
  await new Promise<void>((resolve) => foreign.listen(0, '127.0.0.1', resolve))
  t.after(() => foreign.close())
  const url = `http://127.0.0.1:${(foreign.address() as AddressInfo).port}`
  await writeAddress(data, { url, pid: process.pid, config: null })
  assert.match((await gantry(line)).err, /does not answer\. Running it in this process\.\n$/)
})

test('the CLI ignores an address file that other users can read or write, or that is malformed', async (t) => {
  const { gantry, service, folder } = await startServiceRig(t)
  for (const mode of [0o666, 0o644]) {
    chmodSync(addressFile(join(folder, '.gantry')), mode)
    assert.deepEqual([(await gantry(line)).err, service.submitted.length], ['', 0])
  }
  writeFileSync(addressFile(join(folder, '.gantry')), 'nonsense')
  assert.equal((await gantry(line)).code, 0)
})

test('GANTRY_KEY is not sent over plain http to another machine', async (t) => {
  const { gantry } = await startServiceRig(t)
  const environment = { GANTRY_URL: 'http://gantry.invalid:7420', GANTRY_KEY: 'gk_secret' }
  const refused = await gantry(['tools'], { environment })
  assert.equal(refused.code, 2)
  assert.match(refused.err, /^CONFIG_INVALID: GANTRY_URL is plain http to another machine/)
  assert.doesNotMatch(refused.err, /gk_secret/)
})

test('a service named by GANTRY_URL must respond, and receives only GANTRY_KEY or the key of its own data folder', async (t) => {
  const { gantry, json, service, server, folder, key } = await startServiceRig(t)
  const silent = await json(['tools'], { environment: { GANTRY_URL: 'http://127.0.0.1:1' } })
  assert.deepEqual([silent.code, silent.values[0].error.code], [5, 'SERVICE_UNAVAILABLE'])
  const own = await gantry(line, { environment: { GANTRY_URL: `${server.url}/` } })
  assert.deepEqual([own.code, service.submitted.length], [0, 1])
  rmSync(addressFile(join(folder, '.gantry')))
  const unknown = await json(['tools'], { environment: { GANTRY_URL: server.url } })
  assert.deepEqual([unknown.code, unknown.values[0].error.code], [3, 'UNAUTHENTICATED'])
  const known = await gantry(['tools'], { environment: { GANTRY_URL: server.url, GANTRY_KEY: key } })
  assert.equal(known.code, 0)
  const wrong = await json(['run', 'demo:add'], { environment: { GANTRY_URL: server.url, GANTRY_KEY: 'gk_wrong' } })
  assert.deepEqual([wrong.code, wrong.values[0].status], [3, 'denied'])
})

test('the CLI refuses a key file that other users can read, and prints no key', async (t) => {
  const { json, folder, key } = await startServiceRig(t)
  chmodSync(join(folder, '.gantry', 'key'), 0o644)
  const { code, values, out, err } = await json(['tools'])
  assert.deepEqual([code, values[0].error.code], [2, 'CONFIG_INVALID'])
  assert.ok(!`${out}${err}`.includes(key))
})

test('a service found by its address file must be on loopback, and does not receive GANTRY_KEY', async (t) => {
  const { gantry, service, folder } = await startServiceRig(t)
  const data = join(folder, '.gantry')
  const environment = { GANTRY_KEY: 'gk_of_another_service' }
  assert.equal((await gantry(line, { environment })).code, 0)
  assert.equal(service.submitted.length, 1, 'the key of the data folder was sent')
  await writeAddress(data, { url: 'http://service.example:7420', pid: process.pid, config: null })
  assert.deepEqual([(await gantry(line, { environment })).err, service.submitted.length], ['', 1])
})
