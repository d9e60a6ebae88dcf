export type {
  AdaptedTools,
  Adapter,
  AdapterCall,
  AdapterOptions,
  Done,
  ForeignTool,
  Loss,
  ReadOptions,
  ReadTools,
  RefusedCall,
} from './adapter.ts'
export { type AiSdkOptions, aiSdk } from './ai-sdk.ts'
export { anthropic } from './anthropic.ts'
export { answerCalls, type RunCall } from './calls.ts'
export { gemini } from './gemini.ts'
export { type McpOptions, mcp } from './mcp.ts'
export type { Names } from './names.ts'
export { openaiChat } from './openai-chat.ts'
export { openaiResponses } from './openai-responses.ts'
export type { OpenAiOptions } from './openai-tools.ts'
