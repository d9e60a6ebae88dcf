import { isSignedHeader, ToolError } from '@gantry/contract'

/** The headers that authenticate a request; a signature covers those of its own headers that matter. */
export type Credentials = (request: {
  readonly method: string
  readonly url: string
  readonly body: string | undefined
  readonly headers: { readonly [name: string]: string }
}) => Promise<{ readonly [header: string]: string }>

type Bytes = Uint8Array<ArrayBuffer>
type PrivateKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>

const signingForm = /^gs_([a-z0-9]{12})_([A-Za-z0-9_-]{43})$/
/** The PKCS #8 prefix of the 32 bytes of an Ed25519 private key. */
const pkcs8 = '302e020100300506032b657004220420'

/** Whether a key signs requests, instead of being sent with them. */
export function signs(key: string): boolean {
  return key.startsWith('gs_')
}

/** Whether a signing key is well-formed; any other text may be a key that is sent. */
export function isWhole(key: string): boolean {
  return !signs(key) || signingForm.test(key)
}

/** The headers of a key: the key itself, or for a signing key a signature of each request with its own nonce. */
export function credentialsOf(key: string | undefined): Credentials {
  if (key === undefined) return async () => ({})
  const [, id, seed] = signingForm.exec(key) ?? []
  if (id === undefined || seed === undefined) return async () => ({ authorization: `Bearer ${key}` })
  let imported: Promise<PrivateKey> | undefined
  return async ({ method, url, body = '', headers }) => {
    if (globalThis.crypto?.subtle === undefined) {
      throw new ToolError('CONFIG_INVALID', 'A key that signs needs Web Crypto, which pages have over https alone.')
    }
    imported ??= importKey(seed)
    const { host, pathname, search } = new URL(url)
    const digest = await crypto.subtle.digest('SHA-256', bytesOf(body))
    const contentDigest = `sha-256=:${base64(new Uint8Array(digest))}:`
    const created = Math.floor(Date.now() / 1_000)
    // As they are sent: names in lower case, values without white space around them.
    const covered = [...new Headers(headers)].filter(([name]) => isSignedHeader(name))
    const names = ['@method', '@authority', '@path', '@query', 'content-digest', ...covered.map(([name]) => name)]
    const params = `(${names.map((name) => `"${name}"`).join(' ')});created=${created};keyid="${id}";nonce="${newNonce()}";alg="ed25519"`
    const base = [
      `"@method": ${method}`,
      `"@authority": ${host}`,
      `"@path": ${pathname}`,
      `"@query": ${search === '' ? '?' : search}`,
      `"content-digest": ${contentDigest}`,
      ...covered.map(([name, value]) => `"${name}": ${value}`),
      `"@signature-params": ${params}`,
    ].join('\n')
    const signature = await crypto.subtle.sign('Ed25519', await imported, headerBytes(base))
    return {
      'content-digest': contentDigest,
      'signature-input': `gantry=${params}`,
      signature: `gantry=:${base64(new Uint8Array(signature))}:`,
    }
  }
}

function importKey(seed: string): Promise<PrivateKey> {
  const bytes = [...pkcs8.matchAll(/../g)].map(([pair]) => Number.parseInt(pair, 16))
  const own = Uint8Array.from(atob(seed.replaceAll('-', '+').replaceAll('_', '/')), (character) =>
    character.charCodeAt(0),
  )
  return crypto.subtle.importKey('pkcs8', Uint8Array.from([...bytes, ...own]), 'Ed25519', false, ['sign'])
}

/** 128 random bits. */
function newNonce(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

function bytesOf(text: string): Bytes {
  return new TextEncoder().encode(text)
}

/** Header values travel as one byte per character, and no character beyond that can be sent. */
function headerBytes(text: string): Bytes {
  return Uint8Array.from(text, (character) => character.charCodeAt(0))
}

function base64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
}
