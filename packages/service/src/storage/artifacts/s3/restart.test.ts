import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { test } from 'node:test'
import { s3Artifacts } from '../s3.ts'
import { ownPlace } from './server.fixture.ts'

const { signal } = new AbortController()
const options = { maxBytes: 1_000_000, signal }

test('a put to a killed server is STORE_UNAVAILABLE, and earlier files are readable after its restart', async (t) => {
  const { server, options: where } = await ownPlace(t, 2_000)
  const store = s3Artifacts(where)
  const content = randomBytes(100_000)
  const { digest } = await store.put(content, options)
  server.kill()
  await assert.rejects(store.put(randomBytes(10), options), { code: 'STORE_UNAVAILABLE', retryable: true })
  await server.restart()
  assert.deepEqual(await buffer(await store.read(digest, undefined, signal)), content)
})

test('a put to a suspended server is STORE_UNAVAILABLE, and works after it resumes', async (t) => {
  const { server, options: where } = await ownPlace(t, 600)
  const store = s3Artifacts(where)
  server.pause()
  await assert.rejects(store.put(randomBytes(10), options), { code: 'STORE_UNAVAILABLE', retryable: true })
  server.resume()
  const patient = s3Artifacts({ ...where, timeoutMs: 20_000 })
  const { digest } = await patient.put(Buffer.from('after'), options)
  assert.equal(await patient.has(digest, signal), true)
})
