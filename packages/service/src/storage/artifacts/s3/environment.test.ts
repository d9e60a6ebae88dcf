import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import { ownPlace, played } from './server.fixture.ts'

/** Every variable and user file by which the AWS SDK can be redirected. */
async function misleading(t: TestContext, trap: string): Promise<NodeJS.ProcessEnv> {
  const home = await mkdtemp(join(tmpdir(), 'gantry-aws-'))
  t.after(() => rm(home, { recursive: true, force: true }))
  const profile = [`endpoint_url = ${trap}`, 'region = eu-trap-1', 'use_fips_endpoint = true', 'max_attempts = 9']
  await writeFile(join(home, 'config'), `[default]\n${profile.join('\n')}\ns3 =\n  endpoint_url = ${trap}\n`)
  await writeFile(join(home, 'credentials'), '[default]\naws_access_key_id = trap\naws_secret_access_key = trap\n')
  return {
    ...process.env,
    HOME: home,
    AWS_CONFIG_FILE: join(home, 'config'),
    AWS_SHARED_CREDENTIALS_FILE: join(home, 'credentials'),
    AWS_ACCESS_KEY_ID: 'trap',
    AWS_SECRET_ACCESS_KEY: 'trap',
    AWS_SESSION_TOKEN: 'trap',
    AWS_ENDPOINT_URL: trap,
    AWS_ENDPOINT_URL_S3: trap,
    AWS_REGION: 'eu-trap-1',
    AWS_DEFAULT_REGION: 'eu-trap-1',
    AWS_CONTAINER_CREDENTIALS_FULL_URI: `${trap}/container`,
    AWS_EC2_METADATA_SERVICE_ENDPOINT: trap,
    AWS_DEFAULTS_MODE: 'auto',
    AWS_USE_FIPS_ENDPOINT: 'true',
    AWS_USE_DUALSTACK_ENDPOINT: 'true',
    AWS_MAX_ATTEMPTS: '9',
    AWS_RETRY_MODE: 'adaptive',
    AWS_REQUEST_CHECKSUM_CALCULATION: 'WHEN_SUPPORTED',
    HTTP_PROXY: trap,
    HTTPS_PROXY: trap,
    http_proxy: trap,
  }
}

async function run(env: NodeJS.ProcessEnv, program: string): Promise<string> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    env,
    cwd: import.meta.dirname,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const closed = once(child, 'close')
  const [out, err] = await Promise.all([buffer(child.stdout), buffer(child.stderr), closed])
  return `${out}${err}`.trim()
}

test('environment variables and AWS config files change neither the endpoint nor the credentials', async (t) => {
  const { options } = await ownPlace(t)
  const trapped: string[] = []
  const trap = await played(t, (incoming, outgoing) => {
    trapped.push(incoming.headers.authorization ?? '')
    incoming.resume()
    outgoing.writeHead(200).end()
  })
  const env = await misleading(t, trap)
  const ours = `
    import { s3Artifacts } from '../s3.ts'
    const store = s3Artifacts(${JSON.stringify(options)})
    const { signal } = new AbortController()
    const { digest } = await store.put(Buffer.from('mine'), { maxBytes: 10, signal })
    console.log(await store.has(digest, signal))`
  assert.equal(await run(env, ours), 'true')
  assert.deepEqual(trapped, [])
  const plain = `
    import { S3 } from '@aws-sdk/client-s3'
    const s3 = new S3({ forcePathStyle: true, useFipsEndpoint: false, useDualstackEndpoint: false })
    await s3.putObject({ Bucket: 'bucket', Key: 'key', Body: 'mine' })
    console.log('sent')`
  assert.equal(await run(env, plain), 'sent')
  assert.match(trapped.join(), /Credential=trap\/\d+\/eu-trap-1/)
})

test('without an endpoint requests go to Amazon S3, whatever the environment sets', async (t) => {
  const trapped: string[] = []
  const trap = await played(t, (incoming, outgoing) => {
    trapped.push(incoming.url ?? '')
    outgoing.end()
  })
  const program = `
    import { syncBuiltinESMExports } from 'node:module'
    import dns from 'node:dns'
    const asked = new Set()
    dns.lookup = (name, options, callback) => { asked.add(name); callback(Object.assign(new Error('no'), { code: 'ENOTFOUND' })) }
    syncBuiltinESMExports()
    const { s3Artifacts } = await import('../s3.ts')
    const keys = { accessKeyId: 'id', secretAccessKey: 'secret' }
    const store = s3Artifacts({ region: 'eu-west-1', bucket: 'files', ...keys, timeoutMs: 3000 })
    const { signal } = new AbortController()
    await store.put(Buffer.from('mine'), { maxBytes: 10, signal }).catch((error) => console.log(error.code, ...asked))`
  assert.equal(await run(await misleading(t, trap), program), 'STORE_UNAVAILABLE files.s3.eu-west-1.amazonaws.com')
  assert.deepEqual(trapped, [])
})
