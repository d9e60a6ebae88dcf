import { createHash, createHmac } from 'node:crypto'
import type { S3Place } from './options.ts'

/** What a URL allows to whoever has it. */
export interface Signed {
  readonly key: string
  /** Parameters of the request, which cannot be changed. */
  readonly query: { readonly [name: string]: string }
  readonly expiresSeconds: number
  readonly at: Date
}

/** A URL by which one object can be read for a while without a key (AWS Signature 4 in the query). */
export function presignedUrl(place: S3Place, { key, query, expiresSeconds, at }: Signed): string {
  const { region, accessKeyId, secretAccessKey, sessionToken } = place
  const url = objectUrl(place, key)
  const time = at.toISOString().replace(/[-:]|\.\d{3}/g, '')
  const scope = `${time.slice(0, 8)}/${region}/s3/aws4_request`
  const all = sorted({
    ...query,
    'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
    'X-Amz-Credential': `${accessKeyId}/${scope}`,
    'X-Amz-Date': time,
    'X-Amz-Expires': String(expiresSeconds),
    ...(sessionToken === undefined ? {} : { 'X-Amz-Security-Token': sessionToken }),
    'X-Amz-SignedHeaders': 'host',
  })
  const request = ['GET', url.pathname, all, `host:${url.host}\n`, 'host', 'UNSIGNED-PAYLOAD'].join('\n')
  const digest = createHash('sha256').update(request).digest('hex')
  const toSign = ['AWS4-HMAC-SHA256', time, scope, digest].join('\n')
  const signingKey = scope.split('/').reduce<string | Buffer>(hmac, `AWS4${secretAccessKey}`)
  return `${url.origin}${url.pathname}?${all}&X-Amz-Signature=${hmac(signingKey, toSign).toString('hex')}`
}

/** Keys are made of letters, digits, `-`, `_` and `/`, and need no encoding. */
function objectUrl({ endpoint, bucket, forcePathStyle }: S3Place, key: string): URL {
  if (forcePathStyle) return new URL(`${endpoint}/${bucket}/${key}`)
  const { protocol, host } = new URL(endpoint)
  return new URL(`${protocol}//${bucket}.${host}/${key}`)
}

function sorted(query: { readonly [name: string]: string }): string {
  const pairs = Object.entries(query).map(([name, value]) => `${encode(name)}=${encode(value)}`)
  return pairs.sort((a, b) => (a < b ? -1 : 1)).join('&')
}

function encode(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (it) => `%${it.charCodeAt(0).toString(16).toUpperCase()}`)
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}
