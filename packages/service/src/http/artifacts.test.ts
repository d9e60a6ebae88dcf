import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import type { ArtifactRef } from '@gantry/contract'
import { unauthenticated } from './authentication/authenticator.ts'
import { owner, type Rig, startRig } from './http.fixture.ts'
import { fakeService } from './service.fixture.ts'

function keep({ service }: Rig, own: Partial<ArtifactRef>, text = '0123456789'): void {
  const bytes = new TextEncoder().encode(text)
  const ref = { id: 'a1', name: 'notes.txt', mimeType: 'text/plain', bytes: bytes.length, digest: 'sha256:0', ...own }
  service.artifacts.set(ref.id, { ref, tenant: 'acme', bytes })
}

test('an artifact is sent as a download, in full or as a range', async (t) => {
  const rig = await startRig(t)
  keep(rig, {})
  const whole = await rig.ask('/v1/artifacts/a1')
  assert.deepEqual([whole.status, whole.headers.get('content-length'), await whole.text()], [200, '10', '0123456789'])
  assert.match(whole.headers.get('content-disposition') ?? '', /^attachment; filename="notes.txt"/)
  const read = async (range: string, also = {}): Promise<(string | number | null)[]> => {
    const answer = await rig.ask('/v1/artifacts/a1', { headers: { range, ...also } })
    return [answer.status, answer.headers.get('content-range'), await answer.text()]
  }
  assert.deepEqual(await read('bytes=2-4'), [206, 'bytes 2-4/10', '234'])
  assert.deepEqual(await read('bytes=8-'), [206, 'bytes 8-9/10', '89'])
  assert.deepEqual(await read('bytes=8-99'), [206, 'bytes 8-9/10', '89'])
  for (const other of ['bytes=-3', 'bytes=4-2', 'bytes=0-1,3-4', 'lines=1-2', 'bytes=x']) {
    assert.deepEqual(await read(other), [200, null, '0123456789'], other)
  }
  assert.deepEqual(await read('bytes=2-4', { 'if-range': '"other"' }), [200, null, '0123456789'])
  const [status, range] = await read('bytes=10-')
  assert.deepEqual([status, range], [416, 'bytes */10'])
  const head = await rig.ask('/v1/artifacts/a1', { method: 'HEAD' })
  assert.deepEqual([head.status, head.headers.get('content-length'), await head.text()], [200, '10', ''])
})

test('a download whose credential is revoked is cut off', async (t) => {
  let live = true
  const authenticate = async () => {
    if (!live) throw unauthenticated()
    return { identity: owner }
  }
  const content = new PassThrough()
  const ref = { id: 'a1', name: 'a', mimeType: 'text/plain', bytes: 10, digest: 'sha256:0' }
  const service = {
    ...fakeService(),
    artifact: async () => ({ artifact: ref, start: 0, end: 10, content }),
  }
  const rig = await startRig(t, { authenticate, limits: { recheckMs: 5 } }, service)
  content.write('01234')
  const reader = (await rig.ask('/v1/artifacts/a1')).body?.getReader()
  assert.equal(Buffer.from((await reader?.read())?.value ?? []).toString(), '01234')
  live = false
  await assert.rejects(async () => reader?.read())
  if (!content.closed) await new Promise<void>((resolve) => content.once('close', resolve))
})

test('an artifact of another tenant is not found', async (t) => {
  const rig = await startRig(t)
  keep(rig, {})
  assert.equal(
    (await rig.ask('/v1/artifacts/a1', { headers: { authorization: `Bearer ${rig.otherKey}` } })).status,
    404,
  )
  assert.equal((await rig.ask('/v1/artifacts/..%2F..%2Fetc%2Fpasswd')).status, 404)
})

test('HTML and SVG with a script are sent as downloads, not as pages', async (t) => {
  const rig = await startRig(t)
  for (const mimeType of ['text/html', 'image/svg+xml', 'text/html\r\nx-evil: 1', 'no type', '']) {
    keep(rig, { mimeType }, '<script>alert(1)</script>')
    const { headers } = await rig.ask('/v1/artifacts/a1')
    assert.match(headers.get('content-disposition') ?? '', /^attachment/)
    assert.match(headers.get('content-security-policy') ?? '', /sandbox/)
    assert.equal(headers.get('x-content-type-options'), 'nosniff')
    assert.equal(headers.get('x-evil'), null)
    assert.match(headers.get('content-type') ?? '', /^(text\/html|image\/svg\+xml|application\/octet-stream)$/)
  }
})

test('a file name chosen by a tool cannot end the header, leave a folder or hide its extension', async (t) => {
  const rig = await startRig(t)
  const names: readonly (readonly [string, string, string])[] = [
    ['../../etc/passwd', '__.._etc_passwd', '__.._etc_passwd'],
    ['a"; filename="evil.exe', 'a_; filename=_evil.exe', 'a%22%3B%20filename%3D%22evil.exe'],
    ['a\r\nx-evil: 1', 'a__x-evil: 1', 'a__x-evil%3A%201'],
    ['Übung.pdf', '_bung.pdf', '%C3%9Cbung.pdf'],
    ['photo\u202egpj.exe', 'photo_gpj.exe', 'photo_gpj.exe'],
    ['.bashrc', '_bashrc', '_bashrc'],
    ['', 'artifact', 'artifact'],
    ['\ud800', '_', '%EF%BF%BD'],
    ['x'.repeat(1_000), 'x'.repeat(150), 'x'.repeat(150)],
  ]
  for (const [name, ascii, utf8] of names) {
    keep(rig, { name })
    const { headers, status } = await rig.ask('/v1/artifacts/a1')
    assert.equal(status, 200)
    assert.equal(headers.get('content-disposition'), `attachment; filename="${ascii}"; filename*=UTF-8''${utf8}`)
    assert.equal(headers.get('x-evil'), null)
  }
})
