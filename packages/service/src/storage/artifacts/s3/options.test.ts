import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ToolError } from '@gantry/contract'
import type { S3Options } from '../../../config/broker-settings.ts'
import { placeOf } from './client.ts'

const right: S3Options = { region: 'eu-central-1', bucket: 'files', accessKeyId: 'id', secretAccessKey: 'hush' }

test('the endpoint defaults to Amazon’s of the region', () => {
  assert.equal(placeOf(right).endpoint, 'https://s3.eu-central-1.amazonaws.com')
  assert.equal(placeOf({ ...right, region: 'cn-north-1' }).endpoint, 'https://s3.cn-north-1.amazonaws.com.cn')
  assert.equal(placeOf({ ...right, endpoint: 'http://127.0.0.1:9000/' }).endpoint, 'http://127.0.0.1:9000')
})

test('an invalid option is refused with its path, without its value', () => {
  const wrong: readonly [keyof S3Options, unknown][] = [
    ['region', ''],
    ['region', 'eu/../x'],
    ['region', undefined],
    ['bucket', 'ab'],
    ['bucket', 'Files'],
    ['bucket', '../other'],
    ['bucket', 'arn:aws:s3:us-east-1:123456789012:accesspoint/x'],
    ['accessKeyId', 'a b'],
    ['secretAccessKey', 'hush\r\nx: y'],
    ['secretAccessKey', ''],
    ['sessionToken', 'hush\n'],
    ['endpoint', 'ftp://host'],
    ['endpoint', 'https://user:hush@host'],
    ['endpoint', 'https://host/path'],
    ['endpoint', 'https://host/?x=y'],
    ['endpoint', 'host'],
    ['forcePathStyle', 'yes'],
    ['prefix', ''],
    ['prefix', '/x'],
    ['prefix', 'x/'],
    ['prefix', 'x/../y'],
    ['prefix', 'x//y'],
    ['timeoutMs', 0],
  ]
  for (const [key, value] of wrong) {
    assert.throws(
      () => placeOf({ ...right, [key]: value } as S3Options),
      (error: ToolError) => {
        assert.equal(error.code, 'CONFIG_INVALID')
        assert.deepEqual(
          error.details?.issues?.map(({ path }) => path),
          [`/${key}`],
        )
        return !error.message.includes('hush')
      },
      `${key}: ${value}`,
    )
  }
})
