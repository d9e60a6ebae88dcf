import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mediaType } from './artifact.ts'

const png = Buffer.from('\x89PNG\r\n\x1a\nrest', 'latin1')

test('the media type follows the file extension only where the content agrees', () => {
  assert.equal(mediaType('plot.PNG', png), 'image/png')
  assert.equal(mediaType('a/b.csv', Buffer.from('x,y\n')), 'text/csv')
  assert.equal(mediaType('page.png', Buffer.from('<script>')), 'text/plain')
  assert.equal(mediaType('table.csv', Buffer.from([0xff, 0xfe])), 'application/octet-stream')
  assert.equal(mediaType('plot.svg', Buffer.from('<svg/>')), 'image/svg+xml')
})

test('without a known file extension the media type follows the content', () => {
  assert.equal(mediaType('plot', png), 'image/png')
  assert.equal(mediaType('plot.constructor', Buffer.from('x')), 'text/plain')
  assert.equal(mediaType('', Buffer.from([0xff])), 'application/octet-stream')
  assert.equal(mediaType('report', Buffer.from('%PDF-1.7')), 'application/pdf')
})
