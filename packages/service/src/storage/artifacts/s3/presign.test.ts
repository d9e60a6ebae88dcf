import assert from 'node:assert/strict'
import { test } from 'node:test'
import { presignedUrl, s3Artifacts } from '../s3.ts'
import { placeOf } from './client.ts'
import { ownPlace } from './server.fixture.ts'

const { signal } = new AbortController()
const options = { maxBytes: 1_000, signal }
const download = { name: 'report.txt', mimeType: 'text/plain', expiresMs: 60_000, signal }

test('presignedUrl matches the example in the AWS documentation', () => {
  const place = placeOf({
    endpoint: 'https://s3.amazonaws.com',
    region: 'us-east-1',
    bucket: 'examplebucket',
    accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
    secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  })
  const signed = { key: 'test.txt', query: {}, expiresSeconds: 86_400, at: new Date('2013-05-24T00:00:00Z') }
  assert.equal(
    presignedUrl(place, signed),
    'https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256' +
      '&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request' +
      '&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host' +
      '&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404',
  )
})

test('a presigned URL downloads the file under a sanitized name and type', async (t) => {
  const { options: where } = await ownPlace(t)
  const store = s3Artifacts(where)
  const { digest } = await store.put(Buffer.from('mine'), options)
  const fetched = async (change: object): Promise<Response> =>
    fetch((await store.presign?.(digest, { ...download, ...change })) ?? '')
  const answer = await fetched({})
  assert.deepEqual([answer.status, await answer.text()], [200, 'mine'])
  assert.equal(answer.headers.get('content-type'), 'text/plain')
  assert.equal(answer.headers.get('cache-control'), 'private, no-store')
  const hostile = await fetched({ name: '../ä"\r\nset-cookie: x=y;(1)*.html', mimeType: 'text/html' })
  assert.equal(hostile.headers.get('content-type'), 'application/octet-stream')
  assert.equal(
    hostile.headers.get('content-disposition'),
    'attachment; filename="______set-cookie: x=y;(1)*.html"; ' +
      "filename*=UTF-8''__%C3%A4%22__set-cookie%3A%20x%3Dy%3B%281%29%2A.html",
  )
  assert.equal(hostile.headers.get('set-cookie'), null)
  const svg = await fetched({ mimeType: 'image/svg+xml' })
  assert.equal(svg.headers.get('content-type'), 'application/octet-stream')
})

test('a changed presigned URL, or another method, is refused with 403', async (t) => {
  const { options: where } = await ownPlace(t)
  const store = s3Artifacts(where)
  const mine = await store.put(Buffer.from('mine'), options)
  const other = await store.put(Buffer.from('other'), options)
  const url = new URL((await store.presign?.(mine.digest, download)) ?? '')
  assert.equal((await fetch(url)).status, 200)
  const changed = (change: (copy: URL) => void): URL => {
    const copy = new URL(url)
    change(copy)
    return copy
  }
  const [mineDigits, otherDigits] = [mine.digest.slice(7), other.digest.slice(7)]
  const otherKey = (copy: URL): void => {
    copy.pathname = copy.pathname.replace(
      `${mineDigits.slice(0, 2)}/${mineDigits}`,
      `${otherDigits.slice(0, 2)}/${otherDigits}`,
    )
  }
  const changes: ((copy: URL) => void)[] = [
    otherKey,
    (copy) => copy.searchParams.set('X-Amz-Expires', '600'),
    (copy) => copy.searchParams.set('response-content-type', 'text/html'),
    (copy) => copy.searchParams.set('response-content-disposition', 'inline'),
    (copy) => copy.searchParams.delete('response-content-disposition'),
    (copy) => copy.searchParams.set('X-Amz-Signature', 'a'.repeat(64)),
  ]
  for (const change of changes) assert.equal((await fetch(changed(change))).status, 403, String(change))
  for (const method of ['PUT', 'DELETE']) {
    assert.equal((await fetch(url, { method, ...(method === 'DELETE' ? {} : { body: 'x' }) })).status, 403, method)
  }
  assert.equal(await (await fetch(url)).text(), 'mine')
})

test('a presigned URL is valid for at most five minutes, and an expired one is refused', async (t) => {
  const { options: where } = await ownPlace(t)
  const store = s3Artifacts(where)
  const { digest } = await store.put(Buffer.from('mine'), options)
  const secondsOf = async (expiresMs: number): Promise<string | null> =>
    new URL((await store.presign?.(digest, { ...download, expiresMs })) ?? '').searchParams.get('X-Amz-Expires')
  assert.deepEqual([await secondsOf(86_400_000), await secondsOf(Number.POSITIVE_INFINITY)], ['300', '300'])
  assert.deepEqual([await secondsOf(61_999), await secondsOf(0), await secondsOf(-5)], ['61', '1', '1'])
  const key = `${where.prefix}/${digest.slice(7, 9)}/${digest.slice(7)}`
  const signedAt = (at: number): string =>
    presignedUrl(placeOf(where), { key, query: {}, expiresSeconds: 60, at: new Date(at) })
  assert.equal((await fetch(signedAt(Date.now() - 30_000))).status, 200)
  assert.equal((await fetch(signedAt(Date.now() - 90_000))).status, 403)
})
