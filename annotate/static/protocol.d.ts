// The JSON that the page and the server exchange: hsfiq/collect/protocol.py in TypeScript.
// Do not edit. Written by `python -m tests.annotate.typescript`; a test compares the two.

export type ImageState = "missing" | "unloaded" | "loaded" | "shown" | "enlarged";

export interface EmptyPayload {
}

export interface ConsentPayload {
  agrees: boolean;
}

export interface AnswerPayload {
  score_1: number;
  score_2: number;
  preferred: number;
  irrelevant: boolean;
  reason: string | null;
  active_seconds: number;
  seconds_since_first_interaction: number | null;
}

export interface ImagesPayload {
  reference: "missing" | "unloaded" | "loaded" | "shown" | "enlarged";
  sets: ("missing" | "unloaded" | "loaded" | "shown" | "enlarged")[][];
}

export interface SubmitPayload {
  assignment: string;
  submit_key: string;
  answer: AnswerPayload;
  images: ImagesPayload;
}

export interface SkipPayload {
  assignment: string;
  submit_key: string;
  skip: true;
  images: ImagesPayload;
}

export interface CheckPayload {
  assignment: string;
  given: string;
}

export interface TextBlock {
  kind: "heading" | "paragraph" | "list" | "steps";
  lines: string[];
}

export interface ImageView {
  token: string;
  missing: boolean;
}

export interface EarlierAnswer {
  score_1: number | null;
  score_2: number | null;
  preferred: number | null;
  irrelevant: boolean;
  reason: string;
}

export interface ViewBase {
  total: number;
  answered: number;
  back: number | null;
}

export interface ConsentView {
  total: number;
  answered: number;
  back: number | null;
  step: "consent";
  text: TextBlock[];
}

export interface JudgedView {
  total: number;
  answered: number;
  back: number | null;
  text: string;
  reference: ImageView;
  sets: ImageView[][];
  earlier: EarlierAnswer | null;
  reason_asked: boolean;
  assignment: string;
  next_images: string[];
}

export interface PracticeView {
  total: number;
  answered: number;
  back: number | null;
  text: string;
  reference: ImageView;
  sets: ImageView[][];
  earlier: EarlierAnswer | null;
  reason_asked: boolean;
  assignment: string;
  next_images: string[];
  step: "practice";
  better: 1 | 2;
}

export interface QuestionView {
  total: number;
  answered: number;
  back: number | null;
  text: string;
  reference: ImageView;
  sets: ImageView[][];
  earlier: EarlierAnswer | null;
  reason_asked: boolean;
  assignment: string;
  next_images: string[];
  step: "question";
  number: number;
  minutes_left: number | null;
  standing_at: number | null;
}

export interface CheckView {
  total: number;
  answered: number;
  back: number | null;
  step: "check";
  number: number;
  minutes_left: number | null;
  prompt: string;
  assignment: string;
}

export interface Completion {
  code?: string;
  url?: string;
}

export interface DoneView {
  total: number;
  answered: number;
  back: number | null;
  code?: string;
  url?: string;
  step: "done";
  minutes: number;
  passed_on: boolean;
}

export type FarewellKind = "paused" | "closed" | "declined" | "ended" | "handed-on";

export interface FarewellView {
  total: number;
  answered: number;
  back: number | null;
  code?: string;
  url?: string;
  step: "farewell";
  kind: "paused" | "closed" | "declined" | "ended" | "handed-on";
}

export type View = ConsentView | PracticeView | QuestionView | CheckView | DoneView | FarewellView;

export interface StudyInfo {
  title: string;
  language: string;
  guidelines: TextBlock[];
  set_names: string[];
  ties_allowed: boolean;
  shortest_reason: number;
  longest_reason: number;
}

export interface Opening {
  study: StudyInfo;
  texts: Record<string, any>;
  view: ConsentView | PracticeView | QuestionView | CheckView | DoneView | FarewellView;
}

export interface FailedOpening {
  error: string;
  language: string;
  texts: Record<string, any>;
}

export interface SubmitReply {
  revision: number;
  view: ConsentView | PracticeView | QuestionView | CheckView | DoneView | FarewellView;
}

export interface CheckReply {
  passed: boolean;
  view: ConsentView | PracticeView | QuestionView | CheckView | DoneView | FarewellView;
}

export interface ErrorReply {
  error: string;
  handed_on?: boolean;
  outdated?: boolean;
}
