import { type Issue, ToolError } from '@gantry/contract'
import type { S3Options } from '../../../config/broker-settings.ts'

/** Options that were checked, with what is left out filled in. */
export interface S3Place extends S3Options {
  readonly endpoint: string
  readonly forcePathStyle: boolean
  readonly prefix: string
  readonly timeoutMs: number
}

const text = (form: RegExp, words: string) => ({
  fits: (value: unknown) => typeof value === 'string' && form.test(value),
  words,
})

// A bucket's name may be an address of another account elsewhere (an ARN), which this form leaves out.
const shapes: { readonly [key in keyof S3Options]-?: { fits(value: unknown): boolean; readonly words: string } } = {
  endpoint: { fits: isOrigin, words: 'the URL of a server, https://host or https://host:port' },
  region: text(/^[a-z0-9][a-z0-9-]{0,62}$/, 'the name of a region, such as eu-central-1'),
  bucket: text(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'the name of a bucket: 3 to 63 of a-z, 0-9, - and .'),
  accessKeyId: text(/^[\x21-\x7e]{1,128}$/, 'an access key id'),
  secretAccessKey: text(/^[\x21-\x7e]{1,256}$/, 'a secret access key'),
  sessionToken: text(/^[\x21-\x7e]{1,8192}$/, 'a session token'),
  forcePathStyle: { fits: (value) => typeof value === 'boolean', words: 'true or false' },
  prefix: text(
    /^[a-z0-9_-]{1,64}(?:\/[a-z0-9_-]{1,64}){0,7}$/i,
    'words of letters, digits, - and _, with / between them',
  ),
  ca: text(/^-----BEGIN CERTIFICATE-----/m, 'certificates in PEM'),
  timeoutMs: { fits: (value) => Number.isInteger(value) && Number(value) > 0, words: 'a whole number above 0' },
}

const required: ReadonlySet<string> = new Set(['region', 'bucket', 'accessKeyId', 'secretAccessKey'])

/** Checks the options; CONFIG_INVALID names what is wrong with them and never what they hold. */
export function placeOf(options: S3Options): S3Place {
  const issues = Object.entries(shapes).flatMap(([key, { fits, words }]): Issue[] => {
    const value = options[key as keyof S3Options]
    const isFine = value === undefined ? !required.has(key) : fits(value)
    return isFine ? [] : [{ path: `/${key}`, message: `must be ${words}` }]
  })
  const [first] = issues
  if (first !== undefined) {
    const message = `The options of the S3 store are wrong: ${first.path} ${first.message}.`
    throw new ToolError('CONFIG_INVALID', message, { details: { issues } })
  }
  const { endpoint, forcePathStyle = false, prefix = 'artifacts', timeoutMs = 60_000 } = options
  const origin = endpoint === undefined ? amazon(options.region) : new URL(endpoint).origin
  return { ...options, endpoint: origin, forcePathStyle, prefix, timeoutMs }
}

function amazon(region: string): string {
  return `https://s3.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`
}

function isOrigin(value: unknown): boolean {
  const url = typeof value === 'string' ? URL.parse(value) : null
  return url !== null && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`
}
