import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { testSecretSource } from '@gantry/conformance/internal/secret-source'
import { encryptedSecrets } from './encrypted.ts'
import { request, temporaryFolder } from './secrets.fixture.ts'
import { openSecretStore } from './store.ts'

const file = join(temporaryFolder(), 'secrets')
const key = { variable: 'KEY' }
const environment = { KEY: randomBytes(32).toString('base64') }

before(async () => {
  const store = await openSecretStore({ file, key, environment, create: true })
  await store.set('api', 'correct-horse')
})

testSecretSource('encrypted', () => encryptedSecrets({ file, key, environment }))

test('a value that is set while the source is in use is there at the next use', async () => {
  const source = encryptedSecrets({ file, key, environment })
  assert.equal(await source.get('later', request), undefined)
  const store = await openSecretStore({ file, key, environment })
  await store.set('later', 'here now')
  assert.equal(await source.get('later', request), 'here now')
  await store.remove('later')
  assert.equal(await source.get('later', request), undefined)
})

test('a file that is changed under a source that has read it is refused', async () => {
  const copy = join(temporaryFolder(), 'secrets')
  const whole = readFileSync(file, 'utf8')
  writeFileSync(copy, whole)
  const source = encryptedSecrets({ file: copy, key, environment })
  assert.equal(await source.get('api', request), 'correct-horse')
  writeFileSync(copy, whole.replace(/"revision": \d+/, '"revision": 99'))
  await assert.rejects(async () => source.get('api', request), { code: 'SECRET_UNAVAILABLE' })
})

test('a store that is not there, or whose key is not, is an error', async () => {
  const gone = encryptedSecrets({ file: `${file}-gone`, key, environment })
  await assert.rejects(async () => gone.get('api', request), { code: 'CONFIG_INVALID' })
  const keyless = encryptedSecrets({ file, key, environment: {} })
  await assert.rejects(async () => keyless.get('api', request), { code: 'CONFIG_INVALID', message: /KEY/ })
})
