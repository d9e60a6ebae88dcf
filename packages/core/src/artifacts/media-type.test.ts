import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mediaType } from './media-type.ts'

const png = Buffer.from('\x89PNG\r\n\x1a\nrest', 'latin1')

test('a name gives the type as far as the content bears it out', () => {
  assert.equal(mediaType('plot.PNG', png), 'image/png')
  assert.equal(mediaType('a/b.csv', Buffer.from('x,y\n')), 'text/csv')
  assert.equal(mediaType('page.png', Buffer.from('<script>')), 'text/plain')
  assert.equal(mediaType('table.csv', Buffer.from([0xff, 0xfe])), 'application/octet-stream')
  assert.equal(mediaType('plot.svg', Buffer.from('<svg/>')), 'image/svg+xml')
})

test('without a name that tells, the content does', () => {
  assert.equal(mediaType('plot', png), 'image/png')
  assert.equal(mediaType('plot.constructor', Buffer.from('x')), 'text/plain')
  assert.equal(mediaType('', Buffer.from([0xff])), 'application/octet-stream')
  assert.equal(mediaType('report', Buffer.from('%PDF-1.7')), 'application/pdf')
})
