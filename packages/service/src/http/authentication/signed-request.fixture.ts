import { generateKeyPairSync, hash, type KeyObject, randomBytes, sign } from 'node:crypto'

/** A request to be signed, with defaults for absent members. */
export interface ToSign {
  readonly method?: string
  readonly path?: string
  readonly host?: string
  readonly body?: string
  readonly keyId: string
  readonly privateKey: KeyObject
  readonly nonce?: string
  /** In seconds since 1970. */
  readonly created?: number
  readonly alg?: string
  readonly covered?: string
  /** Further headers of the request; each is sent, and covered unless `covered` excludes it. */
  readonly headers?: { readonly [name: string]: string }
  /** Instead of `created;keyid;nonce;alg`. */
  readonly params?: string
  readonly label?: string
}

/** An Ed25519 pair, the public key as the service expects it. */
export function somePair(): { readonly privateKey: KeyObject; readonly publicKey: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  return { privateKey, publicKey: publicKey.export({ format: 'jwk' }).x ?? '' }
}

/** The headers of a signed request: a second implementation of RFC 9421, so that no mistake is shared. */
export function signedHeaders(request: ToSign): { [name: string]: string } {
  const { method = 'GET', path = '/v1/calls', host = 'localhost', body = '', keyId, privateKey } = request
  const { nonce = randomBytes(16).toString('hex'), created = Math.floor(Date.now() / 1_000), alg = 'ed25519' } = request
  const { headers = {}, label = 'sig1' } = request
  const names = Object.keys(headers).map((name) => `"${name}"`)
  const all = ['"@method"', '"@authority"', '"@path"', '"@query"', '"content-digest"', ...names].join(' ')
  const { covered = all } = request
  const params = request.params ?? `;created=${created};keyid="${keyId}";nonce="${nonce}";alg="${alg}"`
  const digest = `sha-256=:${hash('sha256', body, 'base64')}:`
  const [target, query] = path.split('?')
  const values: { readonly [component: string]: string } = {
    '"@method"': method,
    '"@authority"': host,
    '"@path"': target ?? '',
    '"@query"': `?${query ?? ''}`,
    '"content-digest"': digest,
    ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [`"${name}"`, value])),
  }
  const lines = covered.split(' ').map((component) => `${component}: ${values[component] ?? ''}`)
  const base = [...lines, `"@signature-params": (${covered})${params}`].join('\n')
  return {
    ...headers,
    host,
    'content-digest': digest,
    'signature-input': `${label}=(${covered})${params}`,
    signature: `${label}=:${sign(null, Buffer.from(base), privateKey).toString('base64')}:`,
  }
}
