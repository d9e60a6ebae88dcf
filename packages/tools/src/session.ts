import { type DefinedTool, defineTool } from '@gantry/core/internal/tools/tool'
import { file, output, surroundings, timeoutMs } from './sandbox.ts'

const { profile, runtime, limits, network, files } = surroundings

/** `code:session`: an interpreter that keeps its variables and files from one call to the next. */
export const codeSession: DefinedTool = defineTool({
  namespace: 'code',
  name: 'session',
  title: 'Code session',
  description:
    'Opens an interpreter that keeps its variables, imports and files between calls, runs code in it, and closes it.',
  tags: ['code', 'sandbox', 'session', 'python', 'javascript', 'typescript', 'notebook'],
  docs:
    '`open` gives a session, which only its caller can use, for as long as it is used now and then. `run` is as code:run, without stdin: ' +
    'hand it a file. `files` lists the files, brings one out by its `path`, or puts `files` in. `close` ends it. A run that is cancelled ' +
    'or reaches a limit ends the session; `ended` says so, and so does the next call. A session lives in one process and ' +
    'ends with it.',
  backends: [{ kind: 'session', takes: 'session' }],
  timeoutMs,
  inputSchema: {
    type: 'object',
    properties: {
      action: { enum: ['open', 'run', 'files', 'close'] },
      session: { type: 'string', maxLength: 200, description: 'What open gave; for run, files and close.' },
      language: { type: 'string', description: 'For open: python, javascript or typescript.' },
      code: { type: 'string', description: 'For run.' },
      path: { type: 'string', description: 'For files: the one to bring out; all are listed when it is absent.' },
      ...{ files, profile, runtime, limits, network },
    },
    required: ['action'],
    oneOf: [
      { properties: { action: { const: 'open' } }, required: ['language'] },
      { properties: { action: { const: 'run' } }, required: ['session', 'code'] },
      { properties: { action: { enum: ['files', 'close'] } }, required: ['session'] },
    ],
    additionalProperties: false,
  },
  outputSchema: {
    type: 'object',
    properties: {
      session: { type: 'string' },
      language: { type: 'string' },
      idleMs: { type: 'integer', description: 'How long it may rest.' },
      lifetimeMs: { type: 'integer', description: 'How long it may last.' },
      ...output.properties,
      ended: { type: 'string', description: 'Why the session ended with this run.' },
      list: {
        type: 'array',
        items: {
          type: 'object',
          properties: { path: { type: 'string' }, bytes: { type: 'integer' } },
          required: ['path', 'bytes'],
        },
      },
      files: { type: 'object', additionalProperties: file },
      put: { type: 'array', items: { type: 'string' } },
      closed: { type: 'boolean' },
    },
  },
  examples: [
    { title: 'A Python session', args: { action: 'open', language: 'python' } },
    { title: 'Code in it', args: { action: 'run', session: 'what open gave', code: 'x = 6 * 7\nprint(x)' } },
    { title: 'Its files', args: { action: 'files', session: 'what open gave' } },
    { title: 'The end of it', args: { action: 'close', session: 'what open gave' } },
  ],
})
