import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { testSecretSource } from '@gantry/conformance/internal/host-ports'
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

test('a value set while the source is open is returned by the next get', async () => {
  const source = encryptedSecrets({ file, key, environment })
  assert.equal(await source.get('later', request), undefined)
  const store = await openSecretStore({ file, key, environment })
  await store.set('later', 'here now')
  assert.equal(await source.get('later', request), 'here now')
  await store.remove('later')
  assert.equal(await source.get('later', request), undefined)
})

test('a file that is modified after the source has read it is refused', async () => {
  const copy = join(temporaryFolder(), 'secrets')
  const whole = readFileSync(file, 'utf8')
  writeFileSync(copy, whole)
  const source = encryptedSecrets({ file: copy, key, environment })
  assert.equal(await source.get('api', request), 'correct-horse')
  writeFileSync(copy, whole.replace(/"revision": \d+/, '"revision": 99'))
  await assert.rejects(async () => source.get('api', request), { code: 'SECRET_UNAVAILABLE' })
})

test('a missing store or a missing key is an error', async () => {
  const gone = encryptedSecrets({ file: `${file}-gone`, key, environment })
  await assert.rejects(async () => gone.get('api', request), { code: 'CONFIG_INVALID' })
  const keyless = encryptedSecrets({ file, key, environment: {} })
  await assert.rejects(async () => keyless.get('api', request), { code: 'CONFIG_INVALID', message: /KEY/ })
})
