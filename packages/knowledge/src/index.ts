export type {
  Added,
  AddedDocument,
  ChunkRange,
  DocumentInfo,
  Knowledge,
  KnowledgeHit,
  KnowledgeLimits,
  KnowledgePage,
  KnowledgeQuery,
  NewDocument,
  ReadDocument,
} from './knowledge.ts'
export { type KnowledgeSource, knowledgeBackend } from './knowledge-backend.ts'
export { type MemoryKnowledgeOptions, memoryKnowledge } from './memory.ts'
