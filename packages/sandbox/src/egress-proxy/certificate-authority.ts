import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { isIP } from 'node:net'
import { createSecureContext, type SecureContext } from 'node:tls'

/** ASN.1 tags of a certificate; those from 0xa0 on are context-specific. */
const tags = {
  boolean: 0x01,
  integer: 0x02,
  bits: 0x03,
  octets: 0x04,
  oid: 0x06,
  utf8: 0x0c,
  sequence: 0x30,
  set: 0x31,
  utcTime: 0x17,
} as const

/** One DER value: tag, length and content. */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  return Buffer.concat([Buffer.of(tag, ...lengthOf(content.length)), content])
}

export function sequence(...parts: readonly Uint8Array[]): Buffer {
  return der(tags.sequence, ...parts)
}

export function text(tag: number, value: string): Buffer {
  return der(tag, Buffer.from(value))
}

/** A positive integer of any length; a leading zero byte keeps it positive. */
export function integer(bytes: Uint8Array): Buffer {
  const start = bytes.findIndex((byte) => byte !== 0)
  const plain = start < 0 ? Uint8Array.of(0) : bytes.subarray(start)
  return der(tags.integer, (plain[0] ?? 0) > 0x7f ? Buffer.concat([Buffer.of(0), plain]) : plain)
}

/** A bit string of whole bytes, unless `unused` gives the number of unused bits at the end. */
function bits(bytes: Uint8Array, unused = 0): Buffer {
  return der(tags.bits, Buffer.of(unused), bytes)
}

/** An object identifier in dotted form, `1.2.840.10045.4.3.2`. */
export function oid(written: string): Buffer {
  const [first = 0, second = 0, ...rest] = written.split('.').map(Number)
  return der(tags.oid, Buffer.from([first * 40 + second, ...rest].flatMap(base128)))
}

function base128(value: number): number[] {
  const digits = [value & 0x7f]
  for (let left = value >> 7; left > 0; left >>= 7) digits.unshift((left & 0x7f) | 0x80)
  return digits
}

function lengthOf(length: number): number[] {
  if (length < 0x80) return [length]
  const digits: number[] = []
  for (let left = length; left > 0; left >>= 8) digits.unshift(left & 0xff)
  return [0x80 | digits.length, ...digits]
}

/**
 * Certificates that the proxy presents to one sandbox in place of the hosts' own. The keys never leave this process, and
 * only that sandbox trusts the CA.
 */
export interface CertificateAuthority {
  /** The CA certificate, as PEM. */
  readonly certificate: string
  /** The TLS context for a normalized host; created on first use. */
  contextFor(host: string): SecureContext
  /** The certificate for a host, and its key, as PEM. */
  pairFor(host: string): { readonly certificate: string; readonly key: string }
}

/** Most cached hosts; below a wildcard a program can name any number of them. */
const mostContexts = 64

/** Creates keys and a CA certificate; takes about a millisecond. */
export function createCertificateAuthority(): CertificateAuthority {
  const own = keyPair()
  // One key serves all hosts: a holder of it could as well request a certificate here.
  const shown = keyPair()
  const issuer = nameOf(`Gantry sandbox ${randomBytes(6).toString('hex')}`)
  const certificate = signed(own, { issuer, subject: issuer, key: own, extensions: authorityExtensions(own) })
  const contexts = new Map<string, SecureContext>()
  const pairFor = (host: string): ReturnType<CertificateAuthority['pairFor']> => {
    const subject = nameOf('Gantry sandbox')
    const extensions = hostExtensions(host, shown, own)
    const key = String(shown.privateKey.export({ type: 'pkcs8', format: 'pem' }))
    return { certificate: signed(own, { issuer, subject, key: shown, extensions }), key }
  }
  const make = (host: string): SecureContext => {
    const pair = pairFor(host)
    const context = createSecureContext({ key: pair.key, cert: pair.certificate, minVersion: 'TLSv1.2' })
    if (contexts.size >= mostContexts) contexts.clear()
    contexts.set(host, context)
    return context
  }
  return { certificate, pairFor, contextFor: (host) => contexts.get(host) ?? make(host) }
}

interface Keys {
  readonly privateKey: KeyObject
  /** The SubjectPublicKeyInfo of the public key. */
  readonly spki: Buffer
  /** The key identifier in certificates. */
  readonly id: Buffer
}

function keyPair(): Keys {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const spki = publicKey.export({ type: 'spki', format: 'der' })
  return { privateKey, spki, id: createHash('sha256').update(spki).digest().subarray(0, 20) }
}

interface Content {
  readonly issuer: Buffer
  readonly subject: Buffer
  readonly key: Keys
  readonly extensions: Buffer
}

const ecdsaWithSha256 = sequence(oid('1.2.840.10045.4.3.2'))
/** The full UTCTime range from 1970 on: the CA ends with its sandbox, whose clock may show any time. */
const validity = sequence(text(tags.utcTime, '700101000000Z'), text(tags.utcTime, '491231235959Z'))
const version3 = der(0xa0, integer(Uint8Array.of(2)))

function signed({ privateKey }: Keys, { issuer, subject, key, extensions }: Content): string {
  const serial = integer(randomBytes(16))
  const content = sequence(version3, serial, ecdsaWithSha256, issuer, validity, subject, key.spki, extensions)
  const whole = sequence(content, ecdsaWithSha256, bits(sign('sha256', content, privateKey)))
  const lines = whole.toString('base64').match(/.{1,64}/g) ?? []
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n')
}

function nameOf(commonName: string): Buffer {
  return sequence(der(tags.set, sequence(oid('2.5.4.3'), text(tags.utf8, commonName))))
}

const critical = der(tags.boolean, Buffer.of(0xff))

function extension(id: string, value: Buffer, ...marks: readonly Buffer[]): Buffer {
  return sequence(oid(id), ...marks, der(tags.octets, value))
}

function listOf(...extensions: readonly Buffer[]): Buffer {
  return der(0xa3, sequence(...extensions))
}

/** A CA for hosts, not for further CAs. */
function authorityExtensions({ id }: Keys): Buffer {
  return listOf(
    extension('2.5.29.19', sequence(der(tags.boolean, Buffer.of(0xff)), integer(Uint8Array.of(0))), critical),
    extension('2.5.29.15', bits(Buffer.of(0b0000_0110), 1), critical),
    extension('2.5.29.14', der(tags.octets, id)),
  )
}

function hostExtensions(host: string, { id }: Keys, authority: Keys): Buffer {
  return listOf(
    extension('2.5.29.19', sequence(), critical),
    extension('2.5.29.15', bits(Buffer.of(0b1000_0000), 7), critical),
    extension('2.5.29.37', sequence(oid('1.3.6.1.5.5.7.3.1'))),
    extension('2.5.29.17', sequence(alternativeName(host))),
    extension('2.5.29.14', der(tags.octets, id)),
    extension('2.5.29.35', sequence(der(0x80, authority.id))),
  )
}

/** A DNS name, or the bytes of an IP address. */
function alternativeName(host: string): Buffer {
  const plain = host.replace(/^\[|\]$/g, '')
  const family = isIP(plain)
  if (family === 0) return text(0x82, plain)
  return der(0x87, family === 4 ? Buffer.from(plain.split('.').map(Number)) : ipv6Bytes(plain))
}

/** The bytes of an IPv6 address in URL form: hexadecimal groups, and at most one `::`. */
function ipv6Bytes(address: string): Buffer {
  const [front = '', back] = address.split('::')
  const groups = (half = ''): number[] =>
    half === '' ? [] : half.split(':').map((group) => Number.parseInt(group, 16))
  const [before, after] = [groups(front), groups(back)]
  const gap = Array<number>(8 - before.length - after.length).fill(0)
  return Buffer.from([...before, ...gap, ...after].flatMap((group) => [group >> 8, group & 0xff]))
}
