import assert from 'node:assert/strict'
import { chmodSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { addressFile, writeAddress } from '@gantry/service/internal/config/service-address'
import { startServiceRig } from './service.fixture.ts'

const line = ['run', 'demo:add', '{"a":5,"b":3}', '--verbose']

test('a service that runs on the folder is asked, and --local avoids it', async (t) => {
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

test('a service under another configuration is not asked', async (t) => {
  const { gantry, service, folder } = await startServiceRig(t)
  writeFileSync(join(folder, 'gantry.config.json'), '{"demo":true}')
  const here = await gantry(line)
  assert.equal(here.code, 0)
  assert.match(
    here.err,
    /runs without a configuration; this command is under .*gantry\.config\.json\. Running it in this/,
  )
  assert.equal(service.submitted.length, 0)
  const { url } = { url: 'http://127.0.0.1:1' }
  await writeAddress(join(folder, '.gantry'), { url, pid: process.pid, config: join(folder, 'gantry.config.json') })
  assert.match((await gantry(line)).err, /does not answer/)
})

test('an address that does not answer, or whose process is gone, is passed over in silence', async (t) => {
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

test('an address that others may have written is not believed', async (t) => {
  const { gantry, service, folder } = await startServiceRig(t)
  for (const mode of [0o666, 0o644]) {
    chmodSync(addressFile(join(folder, '.gantry')), mode)
    assert.deepEqual([(await gantry(line)).err, service.submitted.length], ['', 0])
  }
  writeFileSync(addressFile(join(folder, '.gantry')), 'nonsense')
  assert.equal((await gantry(line)).code, 0)
})

test('a named service must answer, and gets no key but the one that is meant for it', async (t) => {
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

test('a key file that others may read is refused, and the key is in no message', async (t) => {
  const { json, folder, key } = await startServiceRig(t)
  chmodSync(join(folder, '.gantry', 'key'), 0o644)
  const { code, values, out, err } = await json(['tools'])
  assert.deepEqual([code, values[0].error.code], [2, 'CONFIG_INVALID'])
  assert.ok(!`${out}${err}`.includes(key))
})

test('a service that is only found is on this machine, and is not sent the key of the environment', async (t) => {
  const { gantry, service, folder } = await startServiceRig(t)
  const data = join(folder, '.gantry')
  const environment = { GANTRY_KEY: 'gk_of_another_service' }
  assert.equal((await gantry(line, { environment })).code, 0)
  assert.equal(service.submitted.length, 1, 'it took the key of the folder')
  await writeAddress(data, { url: 'http://service.example:7420', pid: process.pid, config: null })
  assert.deepEqual([(await gantry(line, { environment })).err, service.submitted.length], ['', 1])
})
