// The JSON that the page and the server exchange: hsfiq/collect/protocol.py in TypeScript.
// Do not edit. Written by `python -m tests.annotate.typescript`; a test compares the two.

export type ImageState = "missing" | "unloaded" | "loaded" | "shown" | "enlarged";

export type ExtraType = "choice" | "choices" | "scale" | "number" | "text";

export interface HitForm {
  action: string;
  fields: Record<string, any>;
}

export interface Completion {
  code?: string;
  url?: string;
  hit?: HitForm | null;
}

export interface PlaceView {
  list: number;
  place: number;
}

export interface VoteView {
  preference: number;
  both_bad: boolean;
}

export interface OpinionPayload {
  satisfaction: number | null;
  vote: VoteView | null;
  nearest: PlaceView | null;
  images: ("missing" | "unloaded" | "loaded" | "shown" | "enlarged")[][];
  painted_seconds: number | null;
  active_seconds: number;
}

export interface TypedPayload {
  text: string;
  pasted: boolean;
  first_key_seconds: number | null;
  last_key_seconds: number | null;
}

export interface TurnPayload {
  assignment: string;
  submit_key: string;
  opinion: OpinionPayload | null;
  typed: TypedPayload;
}

export interface UploadPayload {
  assignment: string;
  submit_key: string;
  picture: string;
}

export interface ListPayload {
  assignment: string;
}

export interface StopPayload {
  assignment: string;
  submit_key: string;
  opinion: OpinionPayload | null;
  declared: PlaceView | null;
}

export interface EmptyPayload {
}

export interface SeenPayload {
  messages: number[];
}

export interface WithdrawalPayload {
  assignment: string;
}

export interface ConsentPayload {
  agrees: boolean;
}

export type ExtraAnswer = number | string | (number | string)[] | null;

export interface AnswerPayload {
  judgement: Record<string, any>;
  irrelevant: boolean;
  reason: string | null;
  active_seconds: number;
  seconds_since_first_interaction: number | null;
  extra?: Record<string, any>;
  text_in_view?: boolean;
}

export interface ImagesPayload {
  reference: "missing" | "unloaded" | "loaded" | "shown" | "enlarged" | null;
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

export interface LanguagePayload {
  language: string;
  number: number | null;
}

export interface QuestionnairePayload {
  assignment: string;
  answers: Record<string, any>;
}

export interface ImageView {
  token: string;
  missing: boolean;
}

export interface EarlierAnswer {
  judgement: Record<string, any> | null;
  irrelevant: boolean;
  reason: string;
  extra: Record<string, any>;
}

export interface MessageView {
  id: number;
  text: string;
}

export interface ViewBase {
  total: number;
  answered: number;
  back: number | null;
  text_version: number | null;
  language: string;
  messages: MessageView[];
}

export interface ConsentView {
  total: number;
  answered: number;
  back: number | null;
  text_version: number | null;
  language: string;
  messages: MessageView[];
  step: "consent";
  text: string;
}

export interface JudgedView {
  total: number;
  answered: number;
  back: number | null;
  text_version: number | null;
  language: string;
  messages: MessageView[];
  text: string;
  reference: ImageView | null;
  sets: ImageView[][];
  earlier: EarlierAnswer | null;
  reason_asked: boolean;
  assignment: string;
  draft: string;
  next_images: string[];
}

export interface PracticeView {
  total: number;
  answered: number;
  back: number | null;
  text_version: number | null;
  language: string;
  messages: MessageView[];
  text: string;
  reference: ImageView | null;
  sets: ImageView[][];
  earlier: EarlierAnswer | null;
  reason_asked: boolean;
  assignment: string;
  draft: string;
  next_images: string[];
  step: "practice";
  expected: Record<string, any>;
  explanation: string[];
}

export interface QuestionView {
  total: number;
  answered: number;
  back: number | null;
  text_version: number | null;
  language: string;
  messages: MessageView[];
  text: string;
  reference: ImageView | null;
  sets: ImageView[][];
  earlier: EarlierAnswer | null;
  reason_asked: boolean;
  assignment: string;
  draft: string;
  next_images: string[];
  step: "question";
  number: number;
  minutes_left: number | null;
  standing_at: number | null;
}

export interface SearchTurnView {
  number: number;
  text: string;
  is_given: boolean;
  reference: ImageView;
  lists: ImageView[][] | null;
  satisfaction: number | null;
  vote: VoteView | null;
  nearest: PlaceView | null;
}

export interface SearchView {
  total: number;
  answered: number;
  back: number | null;
  text_version: number | null;
  language: string;
  messages: MessageView[];
  step: "search";
  number: number;
  minutes_left: number | null;
  standing_at: number | null;
  task: "target-shown" | "target-remembered" | "own-wish";
  chooser: "nearest" | "top1";
  rounds: number;
  start: ImageView;
  is_own_picture: boolean;
  may_upload: boolean;
  target: ImageView | null;
  target_seconds: number | null;
  turns: SearchTurnView[];
  awaits_list: boolean;
  is_unavailable: boolean;
  ending: "declared" | "stopped" | "max-rounds" | null;
  declared: PlaceView | null;
  earlier: EarlierAnswer | null;
  assignment: string;
  draft: string;
}

export interface CheckView {
  total: number;
  answered: number;
  back: number | null;
  text_version: number | null;
  language: string;
  messages: MessageView[];
  step: "check";
  number: number;
  minutes_left: number | null;
  prompt: string;
  assignment: string;
}

export interface ExtraQuestionView {
  name: string;
  type: "choice" | "choices" | "scale" | "number" | "text";
  text: string;
  options: string[];
  required: boolean;
  min: number | null;
  max: number | null;
  other: boolean;
}

export interface QuestionnaireView {
  total: number;
  answered: number;
  back: number | null;
  text_version: number | null;
  language: string;
  messages: MessageView[];
  step: "questionnaire";
  note: string;
  questions: ExtraQuestionView[];
  assignment: string;
  draft: string;
}

export interface DoneView {
  total: number;
  answered: number;
  back: number | null;
  text_version: number | null;
  language: string;
  messages: MessageView[];
  code?: string;
  url?: string;
  hit?: HitForm | null;
  step: "done";
  minutes: number;
  passed_on: boolean;
}

export type FarewellKind = "paused" | "closed" | "declined" | "ended" | "excluded" | "reassigned" | "checks-paused" | "checks-excluded";

export interface FarewellView {
  total: number;
  answered: number;
  back: number | null;
  text_version: number | null;
  language: string;
  messages: MessageView[];
  code?: string;
  url?: string;
  hit?: HitForm | null;
  step: "farewell";
  kind: "paused" | "closed" | "declined" | "ended" | "excluded" | "reassigned" | "checks-paused" | "checks-excluded";
  may_reconsider: boolean;
}

export type View = ConsentView | PracticeView | QuestionView | SearchView | CheckView | QuestionnaireView | DoneView | FarewellView;

export interface ReleaseView {
  name: string;
  version: string;
  date: string;
}

export interface WithdrawalView {
  name: string;
  answers: number;
  releases: ReleaseView[];
  payment: "prolific" | "mturk" | "panel" | "code" | null;
  platform: string;
  assignment: string;
}

export interface LanguageView {
  tag: string;
  name: string;
  direction: "ltr" | "rtl";
}

export interface StudyInfo {
  title: string;
  kind: string;
  points: number;
  levels: number;
  language: string;
  direction: "ltr" | "rtl";
  languages: LanguageView[];
  guidelines: string;
  set_names: string[];
  extra_questions: ExtraQuestionView[];
  ties_allowed: boolean;
  confirm_difference: number | null;
  shortest_reason: number;
  longest_reason: number;
  is_preview: boolean;
  text_version: number | null;
}

export interface Opening {
  study: StudyInfo;
  texts: Record<string, any>;
  view: ConsentView | PracticeView | QuestionView | SearchView | CheckView | QuestionnaireView | DoneView | FarewellView;
}

export interface FailedOpening {
  error: string;
  participant_unknown: boolean;
  language: string;
  texts: Record<string, any>;
}

export interface SubmitReply {
  revision: number;
  view: ConsentView | PracticeView | QuestionView | SearchView | CheckView | QuestionnaireView | DoneView | FarewellView;
}

export interface CheckReply {
  passed: boolean;
  view: ConsentView | PracticeView | QuestionView | SearchView | CheckView | QuestionnaireView | DoneView | FarewellView;
}

export interface ErrorReply {
  error: string;
  reassigned?: boolean;
  outdated?: boolean;
  set_back?: boolean;
  participant_unknown?: boolean;
}
