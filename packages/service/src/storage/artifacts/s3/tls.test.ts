import assert from 'node:assert/strict'
import { buffer } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import { makeAuthority } from '../../../../../../scripts/engines/certificates.ts'
import { type S3Server, startS3 } from '../../../../../../scripts/engines/s3.ts'
import type { S3Options } from '../../../config/broker-settings.ts'
import { s3Artifacts } from '../s3.ts'

const { signal } = new AbortController()

async function secured(t: TestContext, hosts: readonly string[]) {
  const ours = makeAuthority()
  t.after(() => ours.remove())
  const server: S3Server = await startS3({ tls: { ...ours.issue({ hosts }), ca: ours.ca } }).catch((error: Error) => {
    if (process.env.GANTRY_ENGINES !== 'required') t.skip(error.message)
    throw error
  })
  t.after(() => server.stop())
  const { endpoint, region, bucket, accessKeyId, secretAccessKey } = server
  const options: S3Options = {
    endpoint,
    region,
    bucket,
    accessKeyId,
    secretAccessKey,
    forcePathStyle: true,
    timeoutMs: 10_000,
  }
  return { ours, options }
}

test('a server with a certificate of the configured authority is used, and presigned URLs are https', async (t) => {
  const { ours, options } = await secured(t, ['127.0.0.1'])
  const store = s3Artifacts({ ...options, ca: ours.ca })
  const { digest } = await store.put(Buffer.from('kept'), { maxBytes: 100, signal })
  assert.equal(String(await buffer(await store.read(digest, undefined, signal))), 'kept')
  const link = await store.presign?.(digest, { name: 'a.txt', mimeType: 'text/plain', expiresMs: 1_000, signal })
  assert.match(link ?? '', /^https:/)
})

test('a server with an untrusted certificate or another host name is refused', async (t) => {
  const theirs = makeAuthority('Another authority')
  t.after(() => theirs.remove())
  const { ours, options } = await secured(t, ['files.example.com'])
  for (const ca of [{ ca: theirs.ca }, {}, { ca: ours.ca }]) {
    const put = s3Artifacts({ ...options, ...ca }).put(Buffer.from('x'), { maxBytes: 100, signal })
    await assert.rejects(put, { code: 'STORE_UNAVAILABLE' })
  }
  assert.throws(() => s3Artifacts({ ...options, ca: 'nonsense' }), { code: 'CONFIG_INVALID' })
})
