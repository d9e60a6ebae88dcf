import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { kindOf } from './private-addresses.ts'

type Bytes = readonly [number, number, number, number]

/** First and last address of each special IPv4 range, written down apart from the code. */
const special: readonly (readonly [string, string])[] = [
  ['0.0.0.0', '0.255.255.255'],
  ['10.0.0.0', '10.255.255.255'],
  ['100.64.0.0', '100.127.255.255'],
  ['127.0.0.0', '127.255.255.255'],
  ['169.254.0.0', '169.254.255.255'],
  ['172.16.0.0', '172.31.255.255'],
  ['192.0.0.0', '192.0.0.255'],
  ['192.0.2.0', '192.0.2.255'],
  ['192.88.99.0', '192.88.99.255'],
  ['192.168.0.0', '192.168.255.255'],
  ['198.18.0.0', '198.19.255.255'],
  ['198.51.100.0', '198.51.100.255'],
  ['203.0.113.0', '203.0.113.255'],
  ['224.0.0.0', '255.255.255.255'],
]
const number = (address: string): number => address.split('.').reduce((sum, byte) => sum * 256 + Number(byte), 0)
const bytes = (value: number): Bytes => [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255]
const isSpecial = (value: number): boolean =>
  special.some(([first, last]) => value >= number(first) && value <= number(last)) || value === number('168.63.129.16')

const anySpecial = fc
  .constantFrom(...special)
  .chain(([first, last]) => fc.integer({ min: number(first), max: number(last) }))
  .map(bytes)
const anyPublic = fc
  .integer({ min: 0, max: 0xffff_ffff })
  .filter((value) => !isSpecial(value))
  .map(bytes)

const hex = (...values: readonly number[]): string =>
  values.map((value) => value.toString(16).padStart(2, '0')).join('')
/** Every way to put an IPv4 address into an IPv6 address that some translator or tunnel takes out again. */
const embeddings = ([a, b, c, d]: Bytes): string[] => [
  `::${hex(a, b)}:${hex(c, d)}`,
  `::${[a, b, c, d].join('.')}`,
  `::ffff:0:${hex(a, b)}:${hex(c, d)}`,
  `64:ff9b::${hex(a, b)}:${hex(c, d)}`,
  `64:ff9b:1::${hex(a, b)}:${hex(c, d)}`,
  `64:ff9b:1:${hex(a, b)}:${hex(0, c)}:${hex(d, 0)}::`,
  `64:ff9b:1:${hex(7, a)}:${hex(0, b)}:${hex(c, d)}::`,
  `64:ff9b:1:7:${hex(0, a)}:${hex(b, c)}:${hex(d, 0)}:0`,
  `2002:${hex(a, b)}:${hex(c, d)}::`,
  `2002:${hex(a, b)}:${hex(c, d)}:1:2:3:4:5`,
  `2001:0:${hex(a, b)}:${hex(c, d)}::`,
  `2001:0:808:808::${hex(a ^ 255, b ^ 255)}:${hex(c ^ 255, d ^ 255)}`,
]
const mapped = ([a, b, c, d]: Bytes): string[] => [
  `::ffff:${hex(a, b)}:${hex(c, d)}`,
  `::ffff:${[a, b, c, d].join('.')}`,
  `0:0:0:0:0:FFFF:${hex(a, b).toUpperCase()}:${hex(c, d)}`,
]

test('an IPv4 address in a special range is never public, whether plain, mapped or embedded in IPv6', () => {
  fc.assert(
    fc.property(anySpecial, (address) => {
      for (const form of [address.join('.'), ...mapped(address), ...embeddings(address)]) {
        assert.notEqual(kindOf(form), 'public', form)
      }
    }),
    { numRuns: 2_000 },
  )
})

test('any other IPv4 address is public, both plain and mapped', () => {
  fc.assert(
    fc.property(anyPublic, (address) => {
      for (const form of [address.join('.'), ...mapped(address)]) assert.equal(kindOf(form), 'public', form)
    }),
    { numRuns: 2_000 },
  )
})

test('an IPv6 address that embeds any IPv4 address is never public', () => {
  fc.assert(
    fc.property(anyPublic, (address) => {
      for (const form of embeddings(address)) assert.notEqual(kindOf(form), 'public', form)
    }),
  )
})

test('the first and last address of every special IPv4 range are not public, and the addresses around it are', () => {
  for (const [first, last] of special) {
    for (const inside of [first, last]) assert.notEqual(kindOf(inside), 'public', inside)
    for (const outside of [number(first) - 1, number(last) + 1]) {
      if (outside < 0 || outside > 0xffff_ffff || isSpecial(outside)) continue
      assert.equal(kindOf(bytes(outside).join('.')), 'public', bytes(outside).join('.'))
    }
  }
})

test('special IPv6 ranges are not public and their neighbours are', () => {
  const inside = [
    '::',
    '::1',
    '::ffff:0:0:1',
    '64:ff9b::1',
    '64:ff9b:1:ffff:ffff:ffff:ffff:ffff',
    '100::1',
    '100:0:0:1::1',
    '2001::1',
    '2001:1ff:ffff::',
    '2001:db8::',
    '2001:db8:ffff:ffff::1',
    '2002::',
    '2002:ffff::1',
    '3fff::',
    '3fff:fff:ffff::',
    'fc00::',
    'fdff:ffff::1',
    'fec0::',
    'feff::1',
    'ff00::',
    'ffff::1',
    '5f00::1',
  ]
  for (const address of inside) assert.equal(kindOf(address), 'special', address)
  const outside = [
    '2001:200::',
    '2001:db7::1',
    '2001:db9::',
    '2003::1',
    '2606:4700::1111',
    '2a00:1450::1',
    '3ffe::1',
    '64:ff9c::1',
  ]
  for (const address of outside) assert.equal(kindOf(address), 'public', address)
})

test('metadata addresses are recognised in every form, as is all of link-local', () => {
  const services: Bytes[] = [
    [169, 254, 169, 254],
    [169, 254, 170, 2],
    [169, 254, 170, 23],
    [169, 254, 0, 23],
    [100, 100, 100, 200],
    [192, 0, 0, 192],
    [168, 63, 129, 16],
  ]
  for (const service of services) {
    for (const form of [service.join('.'), ...mapped(service), ...embeddings(service)]) {
      assert.equal(kindOf(form), 'metadata', form)
    }
  }
  for (const address of [
    'fd00:ec2::254',
    'fd00:ec2::23',
    'fd20:ce::254',
    'fd00:c1::a9fe:a9fe',
    'fd00:42::42',
    'fe80::1',
    'febf::1',
  ]) {
    assert.equal(kindOf(address), 'metadata', address)
  }
  for (const address of ['10.0.0.1', '127.0.0.1', '::1', 'fd00:ec3::254', '100.100.100.201']) {
    assert.equal(kindOf(address), 'special', address)
  }
})

test('text that is not an IP address is classified as metadata, the strictest kind', () => {
  for (const text of [
    '',
    'example.com',
    '2852039166',
    '0x7f.1',
    '127.1',
    '1.2.3.4 ',
    '::1%lo',
    '[::1]',
    '1.2.3.4:80',
    '\0',
  ]) {
    assert.equal(kindOf(text), 'metadata', JSON.stringify(text))
  }
})
