import { setTimeout as delay } from 'node:timers/promises'
import type { JsonSchema } from '@gantry/contract'
import { type DefinedTool, defineTool, type ToolContext } from '@gantry/core'

/** A red pixel, and a sound of no length. */
export const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='
const wav = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA='

const image = { type: 'image', data: png, mimeType: 'image/png' }
const resource = (uri: string, mimeType: string, text: string) => ({
  type: 'resource',
  resource: { uri, mimeType, text },
})
const text = (said: string) => ({ type: 'text', text: said })

function tool(
  name: string,
  run: (context: ToolContext, args: { readonly [name: string]: unknown }) => unknown,
  inputSchema: JsonSchema = { type: 'object' },
): DefinedTool {
  const description = `Does what the scenarios want of ${name}.`
  return defineTool({
    namespace: 'test',
    name,
    description,
    effect: 'read',
    inputSchema,
    run: (args: { readonly [name: string]: unknown }, context: ToolContext) => run(context, args),
  } as never)
}

const schema2020: JsonSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: {
    address: {
      $anchor: 'addressDef',
      type: 'object',
      properties: { street: { type: 'string' }, city: { type: 'string' } },
    },
  },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
}

/** The tools that the conformance suites call, executed by the service like all others. */
export const suiteTools: readonly DefinedTool[] = [
  tool('test_simple_text', () => ({ content: [text('This is a simple text response for testing.')] })),
  tool('test_image_content', () => ({ content: [image] })),
  tool('test_audio_content', () => ({ content: [{ type: 'audio', data: wav, mimeType: 'audio/wav' }] })),
  tool('test_embedded_resource', () => ({
    content: [resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')],
  })),
  tool('test_multiple_content_types', () => ({
    content: [
      text('Multiple content types test:'),
      image,
      resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
    ],
  })),
  tool('test_error_handling', () => {
    throw new Error('This tool intentionally returns an error for testing')
  }),
  tool('test_tool_with_progress', async ({ progress, signal }) => {
    for (const done of [0, 50, 100]) {
      progress(done, 100, `Completed step ${done} of 100`)
      await delay(50, undefined, { signal })
    }
    return { content: [text('It is done.')] }
  }),
  tool('test_tool_with_logging', async ({ log, signal }) => {
    for (const said of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
      log('info', said)
      await delay(50, undefined, { signal })
    }
    return { content: [text('It is logged.')] }
  }),
  tool('test_logging_tool', ({ log }) => {
    log('info', 'An unrequested line')
    return { content: [text('It is logged.')] }
  }),
  tool('test_reconnection', () => ({ content: [text('It was closed and opened again.')] })),
  tool('json_schema_2020_12_tool', () => ({ content: [text('It fits.')] }), schema2020),
  tool('greet', (_context, { name }) => ({ content: [text(`Hello, ${name}!`)] })),
  tool('slow_compute', async ({ signal }, { seconds, label }) => {
    await delay(Number(seconds) * 1_000, undefined, { signal })
    return { content: [text(`Computed ${label} in ${seconds} s`)] }
  }),
  tool('failing_job', async ({ signal }) => {
    await delay(1_000, undefined, { signal })
    throw new Error('The job failed, as it should.')
  }),
]
