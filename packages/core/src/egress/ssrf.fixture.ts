import { channel } from 'node:diagnostics_channel'
import type { TestContext } from 'node:test'

/** The four numbers of an address. */
export type Bytes = readonly [number, number, number, number]

/** Counts every TCP connection that this process opens. */
export function countDials(t: TestContext): () => number {
  let dials = 0
  const onSocket = (): void => {
    dials += 1
  }
  const sockets = channel('net.client.socket')
  sockets.subscribe(onSocket)
  t.after(() => sockets.unsubscribe(onSocket))
  return () => dials
}

const hex = (...bytes: readonly number[]): string => bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('')
const circled = (text: string): string =>
  text.replace(/\d/g, (digit) => (digit === '0' ? '⓪' : String.fromCodePoint(0x245f + Number(digit))))

/** Notations of an address that URL parsing normalizes to the plain address. */
export function plainForms([a, b, c, d]: Bytes, port: number): string[] {
  const whole = ((a * 256 + b) * 256 + c) * 256 + d
  const octal = (byte: number): string => `0${byte.toString(8)}`
  const dotted = [a, b, c, d].join('.')
  const hosts = [
    ...[dotted, String(whole), `0x${whole.toString(16)}`, `0x${whole.toString(16).toUpperCase()}`, octal(whole)],
    ...[[a, b, c, d].map((byte) => `0x${byte.toString(16)}`).join('.'), [a, b, c, d].map(octal).join('.')],
    ...[`${octal(a)}.${b}.${c}.${d}`, `${a}.${b}.${c * 256 + d}`, `${a}.${(b * 256 + c) * 256 + d}`],
    ...[`0x${a.toString(16)}.${b}.${octal(c)}.${d}`, `${dotted}.`, circled(dotted), dotted.replaceAll('.', '。')],
    ...[dotted.replace(/^\d+/, (digits) => [...digits].map((digit) => `%3${digit}`).join(''))],
    ...[`[::ffff:${dotted}]`, `[::ffff:${hex(a, b)}:${hex(c, d)}]`, `[0:0:0:0:0:ffff:${hex(a, b)}:${hex(c, d)}]`],
    ...[`${a}.${b}.\t${c}.${d}`],
  ]
  return [
    ...hosts.map((host) => `http://${host}:${port}/`),
    ...[`http://${dotted}:${port}#@example.com/`, `http:${dotted}:${port}/`, `http:////${dotted}:${port}/`],
    `ht\ntp://${dotted}:${port}/`,
  ]
}

/** IPv6 addresses that NAT64 or a tunnel maps to the IPv4 address. */
export function hiddenForms([a, b, c, d]: Bytes, port: number): string[] {
  const [dotted, high, low] = [[a, b, c, d].join('.'), hex(a, b), hex(c, d)]
  const hosts = [
    `::${dotted}`,
    `64:ff9b::${high}:${low}`,
    `64:ff9b:1::${high}:${low}`,
    `2002:${high}:${low}::`,
    `::ffff:0:${dotted}`,
  ]
  return hosts.map((host) => `http://[${host}]:${port}/`)
}

/** As a rule names it. */
export const originOf = (url: string): string => {
  const { protocol, host } = new URL(url)
  return `${protocol}//${host.replace(/\.(?=:|$)/, '')}`
}
