import { generateKeyPairSync, hash, randomBytes, sign } from 'node:crypto'
import { Agent, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Identity, Result } from '@gantry/contract'
import { fastify } from 'fastify'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { newApiKey } from '../packages/service/src/config/service-files.ts'
import {
  type Authenticator,
  anyOf,
  keyFileAuthenticator,
} from '../packages/service/src/http/authentication/authenticator.ts'
import { createKeyControl } from '../packages/service/src/http/authentication/key-control.ts'
import { createLiveKeys } from '../packages/service/src/http/authentication/live-keys.ts'
import { signedRequestAuthenticator } from '../packages/service/src/http/authentication/signed-request.ts'
import { storedKeyAuthenticator } from '../packages/service/src/http/authentication/stored-key.ts'
import { tokenAuthenticator } from '../packages/service/src/http/authentication/token.ts'
import { createHttpServer } from '../packages/service/src/http/server.ts'
import type { Service } from '../packages/service/src/http/service.ts'
import { memoryKeys } from '../packages/service/src/storage/keys/api-keys.fixture.ts'
import type { Run, Setup } from './measure.ts'

type Headers = { readonly [name: string]: string }

const owner: Identity = { principal: 'owner', tenant: 'acme', permissions: ['*'] }
const body = JSON.stringify({ tool: 'demo:add', args: { a: 5, b: 3 } })
const result = { callId: 'c1', status: 'ok', output: { result: 8 } } as unknown as Result
/** A stub that answers at once, so that only the HTTP server is measured. */
const service = {
  submit: async () => ({ callId: 'c1', repeated: false }),
  wait: async () => result,
  call: async () => ({ callId: 'c1', state: 'done', result }),
} as unknown as Service
const nothing = (): void => undefined

/** One POST with a JSON body over a keep-alive connection: to bare fastify, and to the HTTP server of the service. */
export const subjects: { readonly [name: string]: Setup } = {
  async bare() {
    const app = fastify()
    app.post('/v1/calls', async () => result)
    await app.listen({ host: '127.0.0.1', port: 0 })
    return caller(`http://127.0.0.1:${(app.server.address() as AddressInfo).port}`, () => ({}))
  },
  async 'key file'() {
    const key = newApiKey()
    return gantry([keyFileAuthenticator(key, owner)], () => bearer(key))
  },
  async key() {
    const { keys, text } = await someKey()
    return gantry([storedKeyAuthenticator(keys)], () => bearer(text))
  },
  async token() {
    const { publicKey, privateKey } = await generateKeyPair('ES256')
    const set = { keys: [{ ...(await exportJWK(publicKey)), kid: 'k1', alg: 'ES256' }] }
    const issuer = { issuer: 'login', name: 'login', audience: ['gantry'], algorithms: ['ES256'], leewaySeconds: 30 }
    const claims = { iss: 'login', aud: 'gantry', sub: 'alice' }
    const token = await new SignJWT(claims)
      .setProtectedHeader({ alg: 'ES256', kid: 'k1' })
      .setExpirationTime('1h')
      .sign(privateKey)
    const rules = { claims: { principal: 'sub' }, tenant: 'acme', grants: [] }
    return gantry([tokenAuthenticator([{ ...issuer, ...rules, keys: { set } }])], () => bearer(token))
  },
  async 'signed request'() {
    const pair = generateKeyPairSync('ed25519')
    const { keys, id } = await someKey(pair.publicKey.export({ format: 'jwk' }).x)
    const nonces = { use: async (all: readonly unknown[]) => all.map(() => true) }
    return gantry([signedRequestAuthenticator(keys, nonces)], (host) => signature(host, id, pair.privateKey))
  },
}

async function someKey(publicKey?: string) {
  const records = memoryKeys()
  const made = await createKeyControl(records, async () => undefined).create(
    { name: 'bench', ...(publicKey === undefined ? {} : { publicKey }) },
    owner,
  )
  return { keys: createLiveKeys(records), id: made.key.id, text: made.text ?? '' }
}

async function gantry(authenticators: readonly Authenticator[], headers: (host: string) => Headers): Promise<Run> {
  const { authenticate } = anyOf(authenticators)
  const log = { debug: nothing, info: nothing, error: nothing }
  const { url } = await createHttpServer({ service, authenticate, log })
  const { host } = new URL(url)
  return caller(url, () => headers(host))
}

function caller(url: string, own: () => Headers): Run {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const usual = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  return () =>
    new Promise<void>((resolve, reject) => {
      const asked = request(`${url}/v1/calls`, { method: 'POST', agent, headers: { ...usual, ...own() } }, (answer) => {
        if (answer.statusCode !== 200) reject(new Error(`the answer was ${answer.statusCode}`))
        answer.on('end', resolve).resume()
      })
      asked.on('error', reject)
      asked.end(body)
    })
}

function bearer(key: string): Headers {
  return { authorization: `Bearer ${key}` }
}

function signature(host: string, id: string, key: Parameters<typeof sign>[2]): Headers {
  const digest = `sha-256=:${hash('sha256', body, 'base64')}:`
  const params = `("@method" "@authority" "@path" "@query" "content-digest");created=${Math.floor(Date.now() / 1_000)};keyid="${id}";nonce="${randomBytes(16).toString('hex')}";alg="ed25519"`
  const base = `"@method": POST\n"@authority": ${host}\n"@path": /v1/calls\n"@query": ?\n"content-digest": ${digest}\n"@signature-params": ${params}`
  const signed = sign(null, Buffer.from(base), key).toString('base64')
  return { 'content-digest': digest, 'signature-input': `sig=${params}`, signature: `sig=:${signed}:` }
}
