import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import { test } from 'node:test'
import { clientFailure, runClient } from './package-clients.ts'

const mismatch = `ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.
    six==1.17.0 from https://user:secret@host.invalid/six.whl (from -r lock.txt (line 4)):
        Expected sha256 00`
const notFound = `npm error code E404
npm error 404 Not Found - GET http://127.0.0.1/missing - Not found
npm error 404  The requested resource 'missing@*' could not be found.`

test('a failure of a client says what is wrong and what to do, without addresses or the passwords in them', () => {
  for (const [client, output, message, retryable] of [
    ['pip', mismatch, /got for six==1\.17\.0 does not have the hash of the lock file.*--update/, false],
    ['pip', 'ERROR: No matching distribution found for six==99\n', /no wheel of six==99 .* never built/, false],
    ['pip', "WARNING: Retrying after connection broken by 'NewConnectionError'", /could not reach its index/, true],
    [
      'pip',
      'ERROR: Could not open https://user:secret@host.invalid/x.\n',
      /ended with exit code 1: Could not open \(address\)/,
      false,
    ],
    ['npm', notFound, /^npm found no package missing@\*\.$/, false],
    ['npm', 'npm error notarget No matching version found for is-odd@99.0.0.', /no package is-odd@99\.0\.0\.$/, false],
    ['npm', 'npm error code EINTEGRITY', /does not have the hash of the lock file/, false],
    ['npm', 'npm error code ECONNREFUSED', /could not reach its index/, true],
  ] as const) {
    const error = clientFailure(client, { code: 1, output })
    assert.match(error.message, message)
    assert.deepEqual([error.code, error.retryable], ['RUNTIME_UNAVAILABLE', retryable], output)
    assert.doesNotMatch(error.message, /secret|host\.invalid/)
  }
})

test('a client gets the variables that it reads and no others, and is killed with its children', async () => {
  process.env.GANTRY_PACKAGES_TEST = 'a key of Gantry'
  process.env.PIP_PACKAGES_TEST = 'for pip'
  const options = { folder: tmpdir(), signal: new AbortController().signal }
  const { output } = await runClient(['/usr/bin/env'], options)
  assert.match(output, /^PIP_PACKAGES_TEST=for pip$/m)
  assert.doesNotMatch(output, /GANTRY_PACKAGES_TEST/)
  const stop = new AbortController()
  const onLine = (): void => stop.abort(new Error('enough'))
  // It ends only when nothing holds its output any more, which the child of the shell does for ten minutes.
  const script = 'sleep 600 & echo started; wait'
  await assert.rejects(runClient(['/bin/sh', '-c', script], { ...options, signal: stop.signal, onLine }), /enough/)
})
